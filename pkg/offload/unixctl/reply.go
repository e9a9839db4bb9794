package unixctl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine is far above any line of a dump, which a datapath's limits on keys and
// actions keep under 100 kB.
const maxLine = 4 << 20

var errLong = errors.New("a string is too long")

// reply reads {"result": string or null, "error": string or null, "id": n} with
// its members in any order, and hands the lines of the result on as they come
// (BenchmarkReply_DumpOfFlows). A json.Decoder would hold all of a dump, twice.
type reply struct {
	in   *bufio.Reader
	line func(string) error
	raw  []byte // the line that is read

	refused bool
	text    string // of the refusal
}

func (r *reply) read() error {
	if _, err := r.seek("{"); err != nil {
		return err
	}
	for {
		if c, err := r.seek(`"}`); err != nil || c == '}' {
			return err
		}
		key, _, err := r.piece()
		if err != nil {
			return err
		}
		c, err := r.seek(`",}{[`)
		if err == nil && c == '"' {
			err = r.value(key)
		}
		switch {
		case err != nil || c == '}':
			return err
		case c == '{' || c == '[':
			return fmt.Errorf("%s is not a text", key)
		}
	}
}

// value reads the string of a member, behind its first quote.
func (r *reply) value(key string) error {
	for {
		text, end, err := r.piece()
		switch {
		case err != nil:
		case key == "error":
			r.refused = true
			if r.text += text; !end {
				r.text += "\n"
			}
			if len(r.text) > maxLine {
				err = errLong
			}
		case key == "result" && (!end || text != ""):
			err = r.line(text)
		}
		if err != nil || end {
			return err
		}
	}
}

// piece reads a string up to the end of a line, or to its own.
func (r *reply) piece() (text string, end bool, err error) {
	r.raw = append(r.raw[:0], '"')
	for escaped := false; ; {
		c, err := r.in.ReadByte()
		switch last := len(r.raw) - 1; {
		case err != nil:
			return "", false, unexpected(err)
		case last > maxLine:
			return "", false, errLong
		case escaped && c == 'n':
			text, err = unquote(append(r.raw[:last], '"'))
			return text, false, err
		case !escaped && c == '"':
			text, err = unquote(append(r.raw, '"'))
			return text, true, err
		}
		r.raw = append(r.raw, c)
		escaped = c == '\\' && !escaped
	}
}

// unquote is json.Unmarshal, for which most lines have no need.
func unquote(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var text string
	err := json.Unmarshal(quoted, &text)
	return text, err
}

// seek passes over all up to one of the given characters, and over that.
func (r *reply) seek(any string) (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil || strings.IndexByte(any, c) >= 0 {
			return c, unexpected(err)
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
