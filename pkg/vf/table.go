package vf

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the inventory for people: a line a NIC, a line a function
// or representor, bonds, and what is wrong.
func WriteTable(w io.Writer, inv Inventory) error {
	if len(inv.PFs) == 0 && len(inv.Problems) == 0 {
		_, err := fmt.Fprintln(w, "no network devices")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(t, "DEVICE", "PRODUCT", "DRIVER", "NUMA", "MODE", "UPLINK", "LINK", "TC", "VFS", "SFS", "LIMIT")
	for i := range inv.PFs {
		pf := &inv.PFs[i]
		var names, states, tc []string
		for _, p := range pf.Ports {
			names, states, tc = append(names, p.Name), append(states, p.Link()), append(tc, onOff(p.HWTC))
		}
		row(t, pf.Name, product(pf), pf.Driver, numa(pf.NUMA), string(pf.Eswitch.Mode),
			strings.Join(names, ","), strings.Join(states, ","), strings.Join(tc, ","),
			fmt.Sprintf("%d/%d", len(pf.VFs), pf.TotalVFs), fmt.Sprint(len(pf.SFs)), pf.Class.Limit)
	}
	functions(t, inv)
	if len(inv.Bonds) > 0 {
		row(t)
		row(t, "BOND", "MODE", "LINK", "PORTS", "VF-LAG")
	}
	for _, b := range inv.Bonds {
		lag := "possible"
		if !b.LAG {
			lag = "no: " + b.Reason
		}
		row(t, b.Name, b.Mode, b.Link(), strings.Join(b.Ports, ","), lag)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeProblems(w, inv)
}

// functions lists VFs, SFs and the representors of other functions, if any.
func functions(t *tabwriter.Writer, inv Inventory) {
	header := false
	line := func(pf *PF, function, device, driver string, n *Netdev, rdma []string, r *Representor) {
		if !header {
			row(t)
			row(t, "FUNCTION", "OF", "DEVICE", "DRIVER", "NETDEV", "RDMA", "REPRESENTOR", "LINK", "TC")
			header = true
		}
		cells := []string{function, pf.Name, device, driver, "", strings.Join(rdma, ","), "", "", ""}
		if n != nil {
			cells[4] = n.Name
		}
		if r != nil {
			cells[6], cells[7], cells[8] = r.Name, r.Link(), onOff(r.HWTC)
		}
		row(t, cells...)
	}
	for i := range inv.PFs {
		pf := &inv.PFs[i]
		for _, v := range pf.VFs {
			line(pf, fmt.Sprintf("vf%d", v.Index), v.Name, v.Driver, v.Netdev, v.RDMA, v.Representor)
		}
		for _, s := range pf.SFs {
			line(pf, fmt.Sprintf("sf%d", s.Number), s.Device, s.Driver, s.Netdev, s.RDMA, s.Representor)
		}
		for _, r := range pf.Representors {
			line(pf, r.Function.String(), "", "", nil, nil, &r)
		}
	}
}

func writeProblems(w io.Writer, inv Inventory) error {
	var lines []string
	for _, p := range inv.Problems {
		lines = append(lines, "  "+p)
	}
	for _, pf := range inv.PFs {
		for _, p := range pf.Problems {
			lines = append(lines, "  "+pf.Name+": "+p)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "\nPROBLEMS\n"+strings.Join(lines, "\n"))
	return err
}

// row writes a dash for what is empty, so that columns can be counted.
func row(t *tabwriter.Writer, cells ...string) {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(t, strings.Join(cells, "\t")) // Flush reports the error
}

func product(pf *PF) string {
	switch {
	case pf.ProductName != "":
		return pf.ProductName
	case pf.Vendor != 0:
		return pf.Vendor.String() + ":" + pf.Product.String()
	}
	return ""
}

func numa(node int) string {
	if node < 0 {
		return ""
	}
	return fmt.Sprint(node)
}

func onOff(on *bool) string {
	switch {
	case on == nil:
		return ""
	case *on:
		return "on"
	}
	return "off"
}
