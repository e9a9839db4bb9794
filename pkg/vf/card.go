package vf

// Card says whether a PF of a host is on the DPU that has the network of the host's pods.
type Card string

// The answers. The kernel does not tell: CardUnknown is of a host with several NICs, none of which is a DPU that
// Class knows.
const (
	CardUnknown Card = ""
	CardDPU     Card = "dpu"
	CardOther   Card = "other" // a NIC beside the DPU, whose VFs do not reach the network of pods
)

// Card goes by the products of the host's NICs. Where none is known, the only NIC that can have VFs is the DPU.
func (i *Inventory) Card(pf *PF) Card {
	card := CardDPU
	for j := range i.PFs {
		other := &i.PFs[j]
		if other.Class.DPU && !pf.Class.DPU {
			return CardOther
		}
		if other.TotalVFs > 0 && !sameCard(pf, other) && !pf.Class.DPU {
			card = CardUnknown
		}
	}
	return card
}
