package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// beside is a program on processor time that the tests leave.
type beside struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	out  *os.File
}

// startBeside runs a script of the shell at the lowest priority. Its output is kept until it has ended.
func (g *gate) startBeside(ctx context.Context, script string) (*beside, error) {
	out, err := os.Create(filepath.Join(g.cfg.root, resultDir, "beside.log"))
	if err != nil {
		return nil, err
	}
	b := &beside{done: make(chan struct{}), out: out}
	// The processes of its session are one group, which can be frozen.
	b.cmd = exec.CommandContext(ctx, filepath.Join(g.cfg.root, "hack/idle"), "sh", "-ec", script)
	b.cmd.Dir, b.cmd.Stdout, b.cmd.Stderr = g.cfg.root, out, out
	b.cmd.Cancel = func() error {
		b.thaw()
		return syscall.Kill(-b.cmd.Process.Pid, syscall.SIGTERM)
	}
	b.cmd.WaitDelay = time.Minute
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the linters: %w", err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.done)
	}()
	return b, nil
}

// freeze stops the program until thaw.
func (b *beside) freeze() { b.signal(syscall.SIGSTOP) }

func (b *beside) thaw() { b.signal(syscall.SIGCONT) }

func (b *beside) signal(s syscall.Signal) {
	if b != nil {
		_ = syscall.Kill(-b.cmd.Process.Pid, s) // it may have ended
	}
}

// wait gives what the program printed and its error, when it has ended.
func (b *beside) wait() (string, error) {
	<-b.done
	text, err := os.ReadFile(b.out.Name())
	b.out.Close()
	if b.err != nil {
		err = b.err
	}
	return string(text), err
}
