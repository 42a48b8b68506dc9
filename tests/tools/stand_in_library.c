// SPDX-License-Identifier: Apache-2.0
/* A shared object that does nothing. */
int gpumemtrace_stand_in;
