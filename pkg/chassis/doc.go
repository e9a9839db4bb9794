// Package chassis gives each OVN chassis a certificate of its own for the Southbound database. OVN's role
// ovn-controller lets the holder of the certificate change the rows of this chassis only.
//
// Data flow, on the node: Client makes a key, which stays on the node, and a CertificateSigningRequest for the local
// system-id. Client writes the certificate and the Southbound's authorities to files, which ovn-controller reads.
// In the controller: Signer decides about each request with decide, records the system-id of each Node, and calls
// pkg/pki to sign.
//
// It is a package of its own because both ends of the request have to agree. Neither pkg/pki, which has the keys, nor
// pkg/node needs to know the other.
package chassis

// SignerName is the signer in the CertificateSigningRequests.
const SignerName = "ovn-offload.io/chassis"

// RecordMap is the ConfigMap with a record for each Node. Only the signer and
// administrators may write it.
const RecordMap = "ovn-chassis"

// DPUNamespace has an account for each host with a DPU, named after the host's Node.
const DPUNamespace = "ovn-dpu"

// ordinaryAccount is the service account of agents that run on their own Node.
const ordinaryAccount = "ovnkube-node"
