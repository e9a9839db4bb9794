// Package vm runs one command in a virtual machine that has SmartNICs: a
// kernel of the bench, for amd64 or arm64, the module swsim on emulated PCI
// functions, and a Debian as root file system. The command's output comes out as it is written, and its
// exit status at the end.
//
// Place in the data flow: benchvm and the bench's tests call Run with what
// hack/lab/build has made; Run boots QEMU; the program vminit is the first process in the
// machine, sets it up, runs the command and switches off. They meet in a
// directory that both see over 9p: there are the job, the programs, and then the
// exit status.
//
// Nothing is left behind: changes inside stay in the machine's memory, QEMU dies with
// the process that started it, and a directory whose owner was killed is removed by
// the next run.
package vm
