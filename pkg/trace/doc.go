// Package trace follows a packet through OVN's logical network, and names the Kubernetes object that decides at each step.
//
// Place in the data flow:
//
//	ends of a connection -> Microflow -> ovn-trace -> Parse -> Hints -> rows of the Northbound database -> steps with names
//
// ovn-trace (ovn-trace(8)) computes the path from the Southbound database and sends nothing. A logical flow has the first
// eight digits of its Northbound row's UUID in external_ids:stage-hint, and the rows have their owners.
package trace
