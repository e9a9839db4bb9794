// Package capture takes the packets of a pod from its node and writes them to one file.
//
// Place in the data flow:
//
//	Request.Command: where, how long, how many -> command for the agent's container, pure
//	tcpdump there -> pcap -> Writer.Copy -> pcapng, one interface for each Point
//	Unseen: traffic as NodeOffload has it -> what a Point does not show, pure
package capture
