package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// agents are those of all nodes: one server, at an address of each node. It takes a certificate of the client without
// a look at it.
type agents struct {
	pods        int
	listener    net.Listener
	certificate tls.Certificate
	nodes       map[string]string // by address
	server      *http.Server

	summaries, flows atomic.Int64
}

// flowsOfNode are the flows of each node.
const flowsOfNode = 1000

func startAgents(nodes, pods int) (*agents, error) {
	a := &agents{pods: pods, nodes: map[string]string{}}
	for i := range nodes {
		a.nodes[addressOf(i)] = nodeName(i)
	}
	var err error
	if a.certificate, err = expose.SelfSigned(); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{a.certificate}, ClientAuth: tls.RequestClientCert}
	if a.listener, err = net.Listen("tcp", "0.0.0.0:0"); err != nil {
		return nil, err
	}
	a.server = &http.Server{Handler: flowapi.Handler(a), ReadHeaderTimeout: time.Minute}
	go a.server.Serve(tls.NewListener(a.listener, config))
	return a, nil
}

func (a *agents) stop() { a.server.Close() }

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

func addressOf(i int) string { return fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250) }

// endpoint is status.agent of the NodeOffload.
func (a *agents) endpoint(i int) map[string]any {
	_, port, _ := net.SplitHostPort(a.listener.Addr().String())
	sum := sha256.Sum256(a.certificate.Certificate[0])
	return map[string]any{"address": net.JoinHostPort(addressOf(i), port), "fingerprint": hex.EncodeToString(sum[:])}
}

// node is the one at whose address a request came.
func (a *agents) node(ctx context.Context) string {
	address, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	host, _, _ := net.SplitHostPort(address.String())
	return a.nodes[host]
}

// Summary implements flowapi.Source.
func (a *agents) Summary(ctx context.Context, _ bool) (*flowapi.Summary, error) {
	n := uint64(a.summaries.Add(1))
	node := a.node(ctx)
	s := &flowapi.Summary{Node: node, Taken: time.Now(), Seconds: 30, Offload: offload.Settings{HWOffload: true}}
	share := offload.Share{Hardware: offload.Count{Flows: 12, Packets: 9_000_000 + n, Bytes: 9_000_000_000}, OVS: offload.Count{Flows: 3, Packets: 4000 + n, Bytes: 400_000}}
	s.Total = share
	for i := range a.pods {
		s.Pods = append(s.Pods, flowapi.PodSummary{
			Namespace: fmt.Sprintf("team-%d", i%20), Name: podName(node, i), Ports: []string{fmt.Sprintf("pf0vf%d", i)}, VF: true, Traffic: share,
			Reason: offload.ReasonAction, Detail: "hash(l4)",
		})
	}
	return s, nil
}

func podName(node string, i int) string { return fmt.Sprintf("web-%s-%d", node, i) }

// Flows implements flowapi.Source.
func (a *agents) Flows(ctx context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	a.flows.Add(1)
	node := a.node(ctx)
	out := &flowapi.Flows{Node: node, Taken: time.Now(), Matched: flowsOfNode}
	for i := range min(flowsOfNode, q.Limit) {
		out.Flows = append(out.Flows, flowapi.Flow{
			ID: fmt.Sprintf("ufid:%032x", i), Node: node, From: flowapi.End{Port: "pf0vf1", Namespace: "team-1", Pod: podName(node, 1)},
			To: []flowapi.End{{Port: "genev_sys_6081"}}, Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.1.7", Target: "10.244.2.9", TargetPort: fmt.Sprint(i)},
			Match: "recirc_id(0),in_port(pf0vf1),eth_type(0x0800)", Actions: "set(tunnel()),genev_sys_6081",
			Placed: flowapi.Placed{Place: offload.Hardware}, Traffic: flowapi.Traffic{Packets: uint64(time.Now().UnixMilli()), Bytes: 1},
		})
	}
	return out, nil
}

// Why implements flowapi.Source.
func (a *agents) Why(context.Context, string) (*flowapi.Why, error) { return nil, flowapi.ErrNoFlow }
