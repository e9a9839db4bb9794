// Package build makes what a lab runs from: the cluster's binaries, the root file
// systems and the small images. Each is kept in the user's cache directory under
// a name that is a hash of what it is made of, so a fresh clone makes it once.
//
// Place in the data flow: hack/lab/cluster calls it before it starts machines;
// it knows nothing of labs. A build that is interrupted leaves nothing behind
// under the final name: everything is made beside it and renamed.
package build
