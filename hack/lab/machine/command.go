package machine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/vishvananda/netns"

	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

// A command in a VM is one TCP connection: the client sends the arguments and
// then its standard input, the VM what the command writes and how it ended. Each
// message has a kind and a length before it.
const (
	kindArgs  = iota // JSON
	kindInput        // empty: its end
	kindOutput
	kindErrors
	kindExit // one byte
)

const maxMessage = 1 << 20

type messages struct {
	mu   sync.Mutex
	conn io.ReadWriter
}

func (m *messages) send(kind byte, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	header := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	_, err := m.conn.Write(append(header, data...))
	return err
}

func (m *messages) receive() (byte, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(m.conn, header[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length > maxMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes", length)
	}
	data := make([]byte, length)
	_, err := io.ReadFull(m.conn, data)
	return header[0], data, err
}

// stream is a writer of messages of one kind.
type stream struct {
	to   *messages
	kind byte
}

func (s stream) Write(data []byte) (int, error) {
	for start := 0; start < len(data); start += maxMessage {
		if err := s.to.send(s.kind, data[start:min(len(data), start+maxMessage)]); err != nil {
			return start, err
		}
	}
	return len(data), nil
}

// CommandInVM runs a command in the VM whose QEMU is in this network namespace,
// and gives its exit status.
func CommandInVM(args []string) (int, error) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", controlPort))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	return command(conn, args, os.Stdin, os.Stdout, os.Stderr)
}

func command(conn net.Conn, args []string, in io.Reader, out, complaints io.Writer) (int, error) {
	to := &messages{conn: conn}
	encoded, err := json.Marshal(args)
	if err != nil {
		return 0, err
	}
	if err := to.send(kindArgs, encoded); err != nil {
		return 0, err
	}
	go func() {
		if _, err := io.Copy(stream{to, kindInput}, in); err == nil {
			_ = to.send(kindInput, nil)
		}
	}()
	for {
		kind, data, err := to.receive()
		switch {
		case err != nil:
			return 0, fmt.Errorf("the machine has not answered to the end: %w", err)
		case kind == kindOutput:
			_, err = out.Write(data)
		case kind == kindErrors:
			_, err = complaints.Write(data)
		case kind == kindExit && len(data) == 1:
			return int(data[0]), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// ServeCommands is a VM's end of CommandInVM: the socket is among the cables,
// the commands are in the node's namespaces.
func ServeCommands() error {
	listener, err := listenIn(wiring, fmt.Sprintf("%s:%d", vm.ControlAddress, controlPort))
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			serveCommand(conn)
		}()
	}
}

// listenIn leaves its thread in the namespace, so that it ends.
func listenIn(path, address string) (net.Listener, error) {
	space, err := netns.GetFromPath(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = space.Close() }()
	type result struct {
		net.Listener
		error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(space); err != nil {
			done <- result{nil, err}
			return
		}
		listener, err := net.Listen("tcp", address)
		done <- result{listener, err}
	}()
	r := <-done
	return r.Listener, r.error
}

// serveCommand runs one; a client that goes away takes its command along.
func serveCommand(conn net.Conn) {
	from := &messages{conn: conn}
	kind, data, err := from.receive()
	var args []string
	if err != nil || kind != kindArgs || json.Unmarshal(data, &args) != nil || len(args) == 0 {
		return
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", stream{from, kindOutput}, stream{from, kindErrors}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = from.send(kindErrors, []byte(err.Error()+"\n"))
		_ = from.send(kindExit, []byte{127})
		return
	}
	go feed(cmd, input, from)
	err = cmd.Wait()
	exit := cmd.ProcessState.ExitCode()
	if exit < 0 { // as shells do for a signal
		exit = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		_ = from.send(kindErrors, []byte(err.Error()+"\n"))
	}
	_ = from.send(kindExit, []byte{byte(exit)})
}

// feed gives a command its input, until the client is gone.
func feed(cmd *exec.Cmd, input io.WriteCloser, from *messages) {
	for {
		kind, data, err := from.receive()
		if err != nil {
			_ = cmd.Process.Kill()
			return
		}
		if kind == kindInput && len(data) == 0 {
			_ = input.Close()
		} else if kind == kindInput {
			_, _ = input.Write(data)
		}
	}
}
