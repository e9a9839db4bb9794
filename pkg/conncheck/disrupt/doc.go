// Package disrupt tests what connections live through: it makes pods whose connections last, leaves them, and says later what
// became of each connection.
//
// Place in the data flow:
//
//	Setup: Place -> servers -> their addresses -> clients: ovn-offload-agent probe keep
//	Check: pods, exec in the clients: ovn-offload-agent probe kept -> probe.Lasted -> judge, pure -> conncheck.Outcome
//	kubectl offload test --setup-disrupt and --check-disrupt: call them, with what the user does to the network between them
//
// What the cluster did to the pods themselves is not counted against the network: such connections are skipped, with the
// reason. A pod that a policy denies is the control: no answer may come from it, not even while the network is being replaced.
package disrupt
