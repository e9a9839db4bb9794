package tcrule

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Why a rule is not offered.
var (
	ErrNoRule     = errors.New("TC has no rule of the flow")
	ErrInHardware = errors.New("the NIC has the rule of the flow")
)

// Answer is what a driver says about a rule that it is offered once more.
type Answer struct {
	// Rule is the flow's own. Priority is where it was offered.
	Rule     Rule
	Priority uint16
	// Taken: the driver took it. Else Errno is the number of its error, and Text its text, as far as they are known.
	Taken bool
	Errno unix.Errno
	Text  string
}

// Offer offers the rule of a flow that comes in by a link once more, and deletes what came of it. The flow's own rule stays as it is.
// For the moment a driver that takes the rule forwards its packets.
func Offer(k Kernel, link, flow string) (a Answer, err error) {
	rules, err := dump(k, link)
	if err != nil {
		return a, fmt.Errorf("reading the rules of link %s: %w", link, err)
	}
	if err := withdrawAll(k, rules); err != nil {
		return a, fmt.Errorf("deleting what a question about a rule of link %s has left: %w", link, err)
	}
	rule, of, err := find(rules, flow)
	if err != nil {
		return a, err
	}
	a = Answer{Rule: of, Priority: freePriority(rules)}
	if err := a.ask(k, link, rule); err != nil {
		return a, fmt.Errorf("offering the rule of flow %s on link %s: %w", flow, link, err)
	}
	if rules, err = dump(k, link); err == nil && len(questions(rules)) > 0 {
		err = fmt.Errorf("the rule with pref %d and handle 0x%x is still on link %s: delete it by tc filter del", a.Priority, questionHandle, link)
	}
	return a, err
}

// find finds the rule of a flow that is not in hardware.
func find(rules [][]byte, flow string) ([]byte, Rule, error) {
	for _, r := range rules {
		of, ok, err := parse(r)
		switch {
		case err != nil:
			return nil, of, err
		case !ok || of.Flow != flow:
		case of.InHardware:
			return nil, of, ErrInHardware
		default:
			return r, of, nil
		}
	}
	return nil, Rule{}, ErrNoRule
}

// The priorities from which Open vSwitch takes next, and the last one that each NIC has: FDB_TC_MAX_PRIO of mlx5 without
// ignore_flow_level.
const (
	reservedPriorities = 4 // TC_RESERVED_PRIORITY_MAX of lib/tc.h
	everywhere         = 16
)

// freePriority is far from those that Open vSwitch takes next, and in the range of each NIC if one is free there. The order among
// priorities is of no matter: no two flows of a datapath match the same packet.
func freePriority(rules [][]byte) uint16 {
	used := map[uint16]bool{}
	for _, r := range rules {
		used[priority(r)] = true
	}
	for p := uint16(everywhere); p > reservedPriorities; p-- {
		if !used[p] {
			return p
		}
	}
	p := uint16(everywhere)
	for used[p] {
		p++
	}
	return p
}

func priority(rule []byte) uint16 { return uint16(nl.DeserializeTcMsg(rule).Info >> 16) }

// questions are the rules that this package has made.
func questions(rules [][]byte) (out [][]byte) {
	for _, r := range rules {
		if len(r) >= nl.SizeofTcMsg && nl.DeserializeTcMsg(r).Handle == questionHandle {
			out = append(out, r)
		}
	}
	return out
}

// withdrawAll deletes what a process has left that ended between its question and the deletion.
func withdrawAll(k Kernel, rules [][]byte) (err error) {
	for _, r := range questions(rules) {
		err = errors.Join(err, withdraw(k, r, priority(r)))
	}
	return err
}

// ask offers a rule and deletes it, whatever came of the offer: nothing in between waits for anything but the kernel.
func (a *Answer) ask(k Kernel, link string, rule []byte) error {
	if _, err := question(rule, a.Priority, verbose); err != nil { // nothing is offered
		return err
	}
	text, err := offer(k, rule, a.Priority, skipSW|verbose)
	if errors.Is(err, unix.EOPNOTSUPP) && text == "" {
		// A link without a driver, as of tunnels, has no rule in hardware alone. A driver of a NIC is asked about its rules all the same.
		a.Text, a.Taken, err = offerToBoth(k, link, rule, a.Priority)
	} else {
		a.Taken = err == nil
	}
	switch errno := unix.Errno(0); {
	case errors.Is(err, unix.EEXIST): // it is not this one's to delete
		return fmt.Errorf("another command asks at the same time: %w", err)
	case err == nil:
	case !errors.As(err, &errno) || errno == unix.EPERM || errno == unix.EAGAIN: // the driver has not been asked, or did not answer in time
		return errors.Join(err, withdraw(k, rule, a.Priority))
	default:
		a.Errno, a.Text = errno, text
	}
	return withdraw(k, rule, a.Priority)
}

func offer(k Kernel, rule []byte, priority uint16, flags uint32) (text string, err error) {
	message, err := question(rule, priority, flags)
	if err != nil {
		return "", err
	}
	request := nl.NewNetlinkRequest(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	request.AddRawData(message)
	return k.RouteAck(request)
}

// offerToBoth offers a rule to software as well, which takes it. What the driver says is a warning then.
func offerToBoth(k Kernel, link string, rule []byte, priority uint16) (text string, taken bool, err error) {
	if text, err = offer(k, rule, priority, verbose); err != nil {
		return text, false, err
	}
	rules, err := dump(k, link)
	if err != nil {
		return text, false, err
	}
	for _, r := range questions(rules) {
		of, _, err := parse(r)
		if err != nil || of.InHardware {
			return text, err == nil, err
		}
	}
	return text, false, nil
}

// withdraw deletes the question about a rule. It is fine if there is none.
func withdraw(k Kernel, rule []byte, priority uint16) error {
	message, err := deletion(rule, priority)
	if err != nil {
		return err
	}
	request := nl.NewNetlinkRequest(unix.RTM_DELTFILTER, 0)
	request.AddRawData(message)
	switch text, err := k.RouteAck(request); {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	default:
		return fmt.Errorf("deleting it: %w: %s", err, text)
	}
}
