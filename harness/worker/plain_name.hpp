// A kernel that sees that it is tested may behave otherwise: nothing of a worker's name, arguments and
// environment says so. What is left are the paths of its program and libraries (/proc/self/exe, maps), and
// without a sandbox other processes.
#pragma once

namespace assay {

// Takes the name that kNameVariable gives, or kPlainName, in place of the command line, and as that of the
// thread. Call it first: what is needed of the arguments is to be copied before.
void take_plain_name(int argc, char** argv);

// Removes the variables of assay from the environment, and from where /proc shows it. Call it when they were
// read.
void forget_own_variables();

}  // namespace assay
