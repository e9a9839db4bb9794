// Package machine makes machines out of namespaces: mount, network, PID, UTS
// and IPC, over one Debian root file system.
//
// A machine is one process, its init, with everything else below it in its PID
// namespace. Nothing of a machine is pinned in the host's file system or network:
// its mounts, links and processes end when its init does, however it ends. So
// removing a machine is one SIGKILL, and a machine is found again, after any
// crash of who started it, by two variables in its init's environment.
//
// Place in the data flow: hack/lab/cluster calls Start with a Spec; Start runs
// the lab's own binary again, which calls Run inside the new namespaces; Run
// builds the mounts, then keeps the services of the Services file running.
package machine
