package chain

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
)

const (
	// maxFunctions bounds the length of a chain.
	maxFunctions = 16
	// MaxEndSubnets bounds the subnets of one address family at each end: pods at the other end have as many routes.
	MaxEndSubnets = 400
	// MaxTerms bounds the labels and values of a selector: each pod on the network is compared with it.
	MaxTerms = 1000
)

// terms counts the labels and values of a selector.
func terms(s *metav1.LabelSelector) int {
	n := len(s.MatchLabels) + len(s.MatchExpressions)
	for _, expression := range s.MatchExpressions {
		n += len(expression.Values)
	}
	return n
}

// parse reads a NetworkChaining.
func parse(object *unstructured.Unstructured) (*Chain, error) {
	var chaining opnfv.NetworkChaining
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &chaining); err != nil {
		return nil, err
	}
	spec := chaining.Spec.RoutingSpec
	c := &Chain{Owner: contract.NetworkChainingOwner(chaining.Namespace, chaining.Name)}
	switch failure := chaining.Annotations[contract.ChainFailureKey]; {
	case spec.Namespace != "" && spec.Namespace != chaining.Namespace:
		return nil, fmt.Errorf("routingSpec.namespace is %s, and must be %s, the namespace of the object", spec.Namespace, chaining.Namespace)
	case failure == "open":
		c.Open = true
	case failure != "" && failure != "closed":
		return nil, fmt.Errorf("annotation %s is %q, and must be open or closed", contract.ChainFailureKey, failure)
	}
	left, err := c.ends("left", append(spec.Left, spec.LeftNetwork...))
	if err != nil {
		return nil, err
	}
	right, err := c.ends("right", append(spec.Right, spec.RightNetwork...))
	if err != nil {
		return nil, err
	}
	c.Stages = [][]Place{left}
	if err := c.links(spec.NetworkChain); err != nil {
		return nil, fmt.Errorf("networkChain: %w", err)
	}
	last := len(c.Stages) - 1
	c.Stages[last] = append(c.Stages[last], right...)
	if len(c.Stages[0]) == 0 || len(c.Stages[last]) == 0 {
		return nil, errors.New("there is no network at the left or at the right end")
	}
	return c, nil
}

// links reads labels and networks in turn. Each function begins a stage, which has the networks behind it.
func (c *Chain) links(text string) error {
	afterNetwork := false
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		name, isNetwork := strings.CutPrefix(item, "net=")
		isNetwork = isNetwork || !strings.Contains(item, "=")
		switch {
		case name == "":
			return errors.New("an element is empty")
		case isNetwork && afterNetwork:
			return fmt.Errorf("%q: there is no function before this network", item)
		case isNetwork:
			last := len(c.Stages) - 1
			c.Stages[last] = append(c.Stages[last], Place{NAD: c.Owner.Namespace + "/" + name})
		case len(c.Functions) > 0 && !afterNetwork:
			return fmt.Errorf("%q: there is no network between this function and the one before", item)
		default:
			selector, err := labels.Parse(item)
			if err != nil {
				return fmt.Errorf("%q: %w", item, err)
			}
			c.Functions = append(c.Functions, selector)
			c.Stages = append(c.Stages, nil)
		}
		afterNetwork = isNetwork
	}
	if len(c.Functions) == 0 || len(c.Functions) > maxFunctions {
		return fmt.Errorf("%d functions are not between 1 and %d", len(c.Functions), maxFunctions)
	}
	return nil
}

func (c *Chain) ends(side string, list []opnfv.ChainEnd) (places []Place, err error) {
	for _, end := range list {
		place, err := c.place(end)
		if err != nil {
			return nil, fmt.Errorf("%s network %s: %w", side, end.NetworkName, err)
		}
		places = append(places, place)
	}
	return places, nil
}

func (c *Chain) place(end opnfv.ChainEnd) (place Place, err error) {
	place.NAD = c.Owner.Namespace + "/" + end.NetworkName
	if end.Subnet != "" {
		prefix, err := netip.ParsePrefix(end.Subnet)
		if err != nil {
			return place, fmt.Errorf("subnet %q is not in the form address/length", end.Subnet)
		}
		place.Subnets = []netip.Prefix{prefix.Masked()}
	}
	if end.GatewayIP != "" {
		if place.Gateway, err = netip.ParseAddr(end.GatewayIP); err != nil {
			return place, fmt.Errorf("gatewayIp %q is not an IP address", end.GatewayIP)
		}
	}
	for _, s := range []struct {
		from *metav1.LabelSelector
		to   *labels.Selector
	}{{end.PodSelector, &place.pods}, {end.NamespaceSelector, &place.namespaces}} {
		if *s.to = labels.Everything(); s.from != nil {
			if n := terms(s.from); n > MaxTerms {
				return place, fmt.Errorf("a selector has %d values, and may have %d", n, MaxTerms)
			}
			if *s.to, err = metav1.LabelSelectorAsSelector(s.from); err != nil {
				return place, fmt.Errorf("selector: %w", err)
			}
		}
	}
	return place, nil
}
