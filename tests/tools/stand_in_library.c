/* A shared object that does nothing. */
int gpumemtrace_stand_in;
