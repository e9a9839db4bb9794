// Package redact replaces the names and the addresses of a cluster in an archive by pseudonyms: the same one for the same name
// everywhere, so that the verbs that read archives still know which objects belong together.
//
// Place in the data flow:
//
//	snapshot -> New: which names there are -> Redactor -> each file of pkg/snapshot's Archive
//
// Pseudonyms come from a key that is made for one archive and is nowhere written: two archives of one cluster have different
// ones. Addresses keep their common prefixes, so that a subnet still contains its addresses. Names of the network's own
// namespace and of kube-system stay, as do words that the documentation has, where they do not name an object.
package redact

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Redactor replaces names and addresses. Its methods may be called at the same time.
type Redactor struct {
	addresses
	// names are the pseudonyms by names; those of words are replaced only where they name an object.
	names map[string]string
	words map[string]bool
	// kept are the namespaces whose names stay, with those of their objects. system is that of the network's own pods.
	kept   map[string]bool
	system string
}

// New learns the names of a snapshot. words are names that are words of the documentation, too.
func New(s *snapshot.Snapshot, words map[string]bool) (*Redactor, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	return withKey(key, s, words), nil
}

func withKey(key []byte, s *snapshot.Snapshot, words map[string]bool) *Redactor {
	r := &Redactor{
		addresses: addresses{key: key, known: map[netip.Addr]netip.Addr{}, numbers: map[string]string{}},
		names:     map[string]string{}, words: words, system: s.Namespace,
		kept: map[string]bool{s.Namespace: true, "kube-system": true, "kube-public": true, "kube-node-lease": true},
	}
	r.shuffle()
	r.learn(s)
	return r
}

// add gives a name its pseudonym.
func (r *Redactor) add(kind, name string) {
	if _, known := r.names[name]; known || name == "" || r.kept[name] || name == contract.DefaultNetwork || name == "kubernetes" {
		return
	}
	r.names[name] = r.pseudonym(kind, name)
}

func (r *Redactor) pseudonym(kind, name string) string {
	return fmt.Sprintf("%s-%s", kind, hex.EncodeToString(r.digest("name " + name)[:4]))
}

// Words are the words of texts, such as the pages of the documentation.
func Words(texts ...[]byte) map[string]bool {
	words := map[string]bool{}
	for _, text := range texts {
		for _, word := range token.FindAllString(string(text), -1) {
			words[word] = true
			for _, part := range strings.FieldsFunc(word, isSeparator) {
				words[part] = true
			}
		}
	}
	return words
}
