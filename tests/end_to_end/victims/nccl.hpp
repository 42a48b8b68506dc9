// SPDX-License-Identifier: Apache-2.0
// The functions of the simulated NCCL (nccl.cpp). They have NCCL's names without its arguments: who
// would be asked over the network is given.
#pragma once

struct SimulatedCommunicator;

using ncclCommInitRankConfig_t = SimulatedCommunicator*(int ranks, int rank);
using ncclCommSplit_t = SimulatedCommunicator*(SimulatedCommunicator* parent, int ranks, int rank);
using ncclAllReduce_t = void(SimulatedCommunicator* communicator);
using ncclCommDestroy_t = void(SimulatedCommunicator* communicator);
