// Package chassis gives each OVN chassis a certificate of its own for the
// Southbound database, in which OVN's role ovn-controller lets the holder change the
// rows of that chassis only.
//
// Data flow, on the node: Client makes a key, which stays on the node, and a
// CertificateSigningRequest in the name of the local system-id; the certificate and
// the authorities of the Southbound become files, which ovn-controller reads.
// Beside the API server: Signer decides about each request with decide, records
// which Node has which system-id, and has pkg/pki sign.
//
// It is a package of its own because both ends of the request have to agree, and
// neither pkg/pki, which has the keys, nor pkg/node needs to know the other.
package chassis

// SignerName is what the requests are for.
const SignerName = "ovn-offload.io/chassis"

// RecordMap is the ConfigMap with a record for each Node. Only the signer and
// administrators may write it.
const RecordMap = "ovn-chassis"

// DPUNamespace has an account for each host with a DPU, named after the host's Node.
const DPUNamespace = "ovn-dpu"

// ordinaryAccount is the agents' that run on their Node.
const ordinaryAccount = "ovnkube-node"
