package dpflow

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

var (
	errBalance = errors.New("parentheses do not balance")
	errActions = errors.New("no actions")
	errPort    = errors.New("no in_port")
)

// Heading says that a line of a dump is not a flow: datapaths in userspace print
// one before the flows of each thread.
func Heading(line string) bool {
	return line == "" || strings.HasPrefix(line, "flow-dump from ")
}

// Thread gives the number of the thread that a heading names; "": the main thread, or a datapath without threads.
func Thread(heading string) string {
	_, number, _ := strings.Cut(heading, "pmd on cpu core: ")
	return strings.TrimSuffix(number, ":")
}

// KeyOf is the match of a line, as ofproto/trace takes it.
func KeyOf(line string) string {
	key, _, _ := strings.Cut(line, ", packets:")
	if strings.HasPrefix(key, "ufid:") {
		_, key, _ = strings.Cut(key, ", ")
	}
	return key
}

// Parse reads one flow.
func Parse(line string) (Flow, error) {
	f := Flow{Used: -1}
	match, actions, ok := cutActions(line)
	if !ok {
		return Flow{}, errActions
	}
	for part, err := range balanced(match) {
		if err != nil {
			return Flow{}, err
		}
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if err := f.add(part); err != nil {
			return Flow{}, fmt.Errorf("%s: %w", part, err)
		}
	}
	if f.InPort == "" {
		return Flow{}, errPort
	}
	// The datapath's own remarks come last.
	if at := strings.LastIndex(actions, ", dp-extra-info:"); at >= 0 {
		actions = actions[:at]
	}
	var err error
	f.Actions, err = terms(actions)
	return f, err
}

// cutActions finds where the actions begin: no match has such a word in it, for
// names of links hold no colon.
func cutActions(line string) (match, actions string, ok bool) {
	if match, actions, ok = strings.Cut(line, ", actions:"); ok {
		return match, actions, true
	}
	return "", "", false
}

// add takes a match, name(args), or an attribute, name:value.
func (f *Flow) add(part string) error {
	open := strings.IndexByte(part, '(')
	if colon := strings.IndexByte(part, ':'); colon >= 0 && (open < 0 || colon < open) {
		return f.attribute(part[:colon], part[colon+1:])
	}
	t, err := term(part)
	if err != nil {
		return err
	}
	switch t.Name {
	case "in_port":
		f.InPort = t.Args
	case "recirc_id":
		f.Recirc, err = number(t.Args)
	case "ct_state":
		f.CT, err = ctState(t.Args)
	default:
		if !t.Wild() {
			f.Match = append(f.Match, t)
		}
	}
	return err
}

func (f *Flow) attribute(name, value string) (err error) {
	switch name {
	case "ufid":
		f.UFID = value
	case "packets":
		f.Packets, err = strconv.ParseUint(value, 10, 64)
	case "bytes":
		f.Bytes, err = strconv.ParseUint(value, 10, 64)
	case "used":
		f.Used, err = used(value)
	case "offloaded":
		f.Offload = Offload(value)
	case "dp":
		f.Layer = Layer(value)
	}
	return err
}

func used(value string) (time.Duration, error) {
	if value == "never" {
		return -1, nil
	}
	return time.ParseDuration(value)
}

func number(text string) (uint32, error) {
	value, _, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(value, 0, 32)
	return uint32(n), err
}

// ctState reads 0x21/0x23, which -m prints, and +new-est+trk.
func ctState(text string) (CTState, error) {
	if text != "" && text[0] != '+' && text[0] != '-' {
		return ctBits(text)
	}
	var s CTState
	for text != "" {
		end := strings.IndexAny(text[1:], "+-") + 1
		if end == 0 {
			end = len(text)
		}
		bit := ctBit(text[1:end])
		s.Mask |= bit
		if text[0] == '+' {
			s.Value |= bit
		}
		text = text[end:]
	}
	return s, nil
}

func ctBits(text string) (CTState, error) {
	value, mask, masked := strings.Cut(text, "/")
	s := CTState{Mask: ^uint32(0)}
	var err error
	if s.Value, err = number(value); err == nil && masked {
		s.Mask, err = number(mask)
	}
	return s, err
}

// ctBit gives 0 for a bit that is not known: it is none of those asked for.
func ctBit(name string) uint32 {
	switch name {
	case "new":
		return CTNew
	case "est":
		return CTEstablished
	case "rel":
		return 0x04
	case "rpl":
		return 0x08
	case "inv":
		return CTInvalid
	case "trk":
		return CTTracked
	case "snat":
		return 0x40
	case "dnat":
		return 0x80
	}
	return 0
}

func terms(text string) ([]Term, error) {
	var out []Term
	for part, err := range balanced(text) {
		if err != nil {
			return nil, err
		}
		t, err := term(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
		if t.Name != "" || t.Args != "" {
			out = append(out, t)
		}
	}
	return out, nil
}

func term(part string) (Term, error) {
	open := strings.IndexByte(part, '(')
	if open < 0 {
		return Term{Name: part}, nil
	}
	if part[len(part)-1] != ')' {
		return Term{}, errBalance
	}
	return Term{Name: part[:open], Args: part[open+1 : len(part)-1]}, nil
}

// balanced splits at the commas outside all parentheses and braces.
func balanced(text string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		depth, start := 0, 0
		for i := 0; i < len(text) && depth >= 0; i++ {
			switch text[i] {
			case '(', '{':
				depth++
			case ')', '}':
				depth--
			case ',':
				if depth > 0 {
					continue
				}
				if !yield(text[start:i], nil) {
					return
				}
				start = i + 1
			}
		}
		if depth != 0 {
			yield("", errBalance)
			return
		}
		yield(text[start:], nil)
	}
}

// split is balanced for text that came out of a parsed flow.
func split(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part, err := range balanced(text) {
			if err != nil || !yield(part) {
				return
			}
		}
	}
}
