// Package sysdump collects what a maintainer needs to understand a fault into one archive: the objects of a snapshot, logs of
// the network's own pods, and outputs of OVN's and Open vSwitch's commands.
//
// Place in the data flow:
//
//	API server, exec and logs of pods -> Collect -> archive -> kubectl offload VERB --from archive
//
// It reads an allow-list: objects as pkg/snapshot cuts them, commands that are listed here. Secrets and ConfigMaps are never
// read.
package sysdump
