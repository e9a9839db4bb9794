package unixctl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxLine is far above any line of a dump, which a datapath's limits on keys
	// and actions keep under 100 kB.
	maxLine = 4 << 20
	// maxText holds what is not handed on: keys and error texts.
	maxText = 64 << 10
)

var errLong = errors.New("a string is too long")

// reply reads {"result": string or null, "error": string or null, "id": n} with
// its members in any order, and hands the lines of the result on as they come.
type reply struct {
	in   *bufio.Reader
	line func(string) error

	refused bool
	text    string // of the refusal
}

func (r *reply) read() error {
	if err := r.expect('{'); err != nil {
		return err
	}
	for {
		if err := r.expect('"'); err != nil {
			return err
		}
		key, err := r.short()
		if err != nil {
			return err
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		if err := r.member(key); err != nil {
			return err
		}
		switch c, err := r.next(); {
		case err != nil:
			return err
		case c == '}':
			return nil
		case c != ',':
			return fmt.Errorf("%q where a member should end", c)
		}
	}
}

func (r *reply) member(key string) error {
	c, err := r.next()
	if err != nil {
		return err
	}
	if c == '{' || c == '[' {
		return fmt.Errorf("%s is not a text", key)
	}
	if c != '"' {
		return r.skip()
	}
	switch key {
	case "result":
		return r.lines()
	case "error":
		r.refused = true
		r.text, err = r.short()
		return err
	}
	_, err = r.short()
	return err
}

// skip passes over a number or a word, up to what ends it.
func (r *reply) skip() error {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return unexpected(err)
		}
		if c == ',' || c == '}' {
			return r.in.UnreadByte()
		}
	}
}

// lines gives the rest of a string, line by line.
func (r *reply) lines() error {
	var buf []byte
	for {
		var err error
		var end bool
		if buf, end, err = r.char(buf); err != nil {
			return err
		}
		if end {
			break
		}
		if last := len(buf) - 1; buf[last] == '\n' {
			if err := r.line(string(buf[:last])); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if len(buf) > maxLine {
			return errLong
		}
	}
	if len(buf) > 0 {
		return r.line(string(buf))
	}
	return nil
}

func (r *reply) short() (string, error) {
	var buf []byte
	for {
		var err error
		var end bool
		if buf, end, err = r.char(buf); err != nil {
			return "", err
		}
		if end {
			return string(buf), nil
		}
		if len(buf) > maxText {
			return "", errLong
		}
	}
}

// char appends the next character of a string, or says that it ended.
func (r *reply) char(buf []byte) (_ []byte, end bool, err error) {
	c, err := r.in.ReadByte()
	if err != nil {
		return buf, false, unexpected(err)
	}
	switch c {
	case '"':
		return buf, true, nil
	case '\\':
	default:
		return append(buf, c), false, nil
	}
	if c, err = r.in.ReadByte(); err != nil {
		return buf, false, unexpected(err)
	}
	switch c {
	case 'n':
		return append(buf, '\n'), false, nil
	case 't':
		return append(buf, '\t'), false, nil
	case 'r':
		return append(buf, '\r'), false, nil
	case 'b':
		return append(buf, '\b'), false, nil
	case 'f':
		return append(buf, '\f'), false, nil
	case '"', '\\', '/':
		return append(buf, c), false, nil
	case 'u':
		buf, err = r.unicode(buf)
		return buf, false, err
	}
	return buf, false, fmt.Errorf("unknown escape %q", c)
}

func (r *reply) unicode(buf []byte) ([]byte, error) {
	u, err := r.hex()
	if err != nil {
		return buf, err
	}
	if utf16.IsSurrogate(u) {
		// Its other half follows; a lone one becomes the replacement character.
		if next, err := r.in.Peek(2); err == nil && string(next) == `\u` {
			if _, err := r.in.Discard(2); err != nil {
				return buf, err
			}
			low, err := r.hex()
			if err != nil {
				return buf, err
			}
			u = utf16.DecodeRune(u, low)
		}
	}
	return utf8.AppendRune(buf, u), nil
}

func (r *reply) hex() (rune, error) {
	var digits [4]byte
	if _, err := io.ReadFull(r.in, digits[:]); err != nil {
		return 0, unexpected(err)
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 16)
	return rune(n), err
}

func (r *reply) expect(want byte) error {
	c, err := r.next()
	if err == nil && c != want {
		err = fmt.Errorf("%q where %q should be", c, want)
	}
	return err
}

func (r *reply) next() (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, unexpected(err)
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, nil
		}
	}
}

// unexpected is for an end that is none.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
