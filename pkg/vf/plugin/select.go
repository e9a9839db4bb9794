package plugin

// ParsePFs makes a selector of PFs' names or PCI addresses, each with the numbers
// of some of its VFs or without: ens1f0#0,2-7.
func ParsePFs(names []string) (Selector, error) {
	s := Selector{PFNames: names}
	return s, s.validate()
}

// Split divides a node's devices into those that are selected and the others.
func Split(devices []Device, s Selector) (selected, others []Device) {
	for _, d := range devices {
		if len(s.PFNames) > 0 && s.matches(d) {
			selected = append(selected, d)
		} else {
			others = append(others, d)
		}
	}
	return selected, others
}

// Healthy gives the ids of the devices that pods can have.
func Healthy(devices []Device) []string {
	var ids []string
	for _, d := range devices {
		if d.Problem == "" {
			ids = append(ids, d.ID)
		}
	}
	return ids
}
