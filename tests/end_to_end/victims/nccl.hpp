// SPDX-License-Identifier: Apache-2.0
// The functions of the simulated NCCL (nccl.cpp), with NCCL's names but fewer arguments: the caller
// gives the ranks that NCCL would exchange over the network.
#pragma once

struct SimulatedCommunicator;

using ncclCommInitRankConfig_t = SimulatedCommunicator*(int ranks, int rank);
using ncclCommSplit_t = SimulatedCommunicator*(SimulatedCommunicator* parent, int ranks, int rank);
using ncclAllReduce_t = void(SimulatedCommunicator* communicator);
using ncclCommDestroy_t = void(SimulatedCommunicator* communicator);
