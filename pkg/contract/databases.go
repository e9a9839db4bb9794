package contract

// AtMember is the command line of ovn-nbctl, ovn-sbctl or ovn-trace beside a member of a database. Without the option they
// wait for the leader of a cluster, and the socket of a member that does not lead never answers them.
func AtMember(program string, args ...string) []string {
	return append([]string{program, "--no-leader-only"}, args...)
}
