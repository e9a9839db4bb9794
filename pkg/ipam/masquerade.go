package ipam

// Where in the masquerade subnet the addresses stand under which a node's own
// processes and its gateway router meet; both have the node's address otherwise.
const (
	// MasqueradeRouter is whom a process of the node sees when a service leads
	// back to it through the router.
	MasqueradeRouter = 1
	// MasqueradeHost is the node as the router sees it.
	MasqueradeHost = 2
	// MasqueradeNextHop is nobody: the way between both.
	MasqueradeNextHop = 4
	// MasqueradeBound is the node whose process has chosen the node's address
	// as its source.
	MasqueradeBound = 6
	// MasqueradeOther is the node under any further source address.
	MasqueradeOther = 7
	// MasqueradeElsewhere has the node ports of services with policy Local whose
	// endpoints are on other nodes, for processes of a node without one.
	MasqueradeElsewhere = 8
	// MasqueradeClient is the source of what the node's own processes send to
	// MasqueradeElsewhere.
	MasqueradeClient = 9
)
