package netdev_test

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestOnThread_IsNeverTheMainOne: also when all others are busy, as they are when many calls wait.
func TestOnThread_IsNeverTheMainOne(t *testing.T) {
	ns, err := netdev.Open(netdevtest.NewNS(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	const more = 64 // than there are threads: idle ones are used before others are made
	var all, inside sync.WaitGroup
	inside.Add(more)
	for range more {
		all.Go(func() {
			if err := netdev.Inside(ns, func() error {
				inside.Done()
				inside.Wait()
				if unix.Gettid() == unix.Getpid() {
					t.Error("the main thread is in the namespace")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	main, mainErr := os.Readlink("/proc/self/ns/net")
	other, otherErr := os.Readlink("/proc/thread-self/ns/net")
	if main != other || mainErr != nil || otherErr != nil {
		t.Errorf("the main thread is in %s, another one in %s: %v, %v", main, other, mainErr, otherErr)
	}
}

// mainThreadLeaves puts the main thread into a namespace of its own, until back is called.
func mainThreadLeaves(t *testing.T) (back func()) {
	t.Helper()
	own, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	const more = 64 // than there are threads: idle ones are used before others are made
	left, stays, done := make(chan error, 1), make(chan struct{}), make(chan struct{})
	try := func() (others chan struct{}) {
		var locked, ended sync.WaitGroup
		locked.Add(more)
		for range more {
			ended.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				locked.Done()
				locked.Wait()
				if unix.Gettid() == unix.Getpid() {
					left <- unix.Unshare(unix.CLONE_NEWNET)
					<-stays
					_ = netns.Set(own)
					close(done)
				}
			})
		}
		others = make(chan struct{})
		go func() { ended.Wait(); close(others) }()
		return others
	}
	for others, tries := try(), 1; ; others, tries = try(), tries+1 {
		select {
		case err := <-left:
			if err != nil {
				t.Fatal(err)
			}
			return func() { close(stays); <-done }
		case <-others:
			if tries == 500 {
				t.Fatal("the main thread is not given to a goroutine")
			}
			time.Sleep(time.Millisecond) // a timer has the runtime's poller leave its thread, which may be the main one
		}
	}
}
