package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/ovn-offload/ovn-offload/hack/image/debian"
	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

const (
	noAssertion = "NOASSERTION"
	ours        = "Apache-2.0"
)

// materials writes the bill of materials of an image, in SPDX 2.3: the packages of its base layer, and the Go modules of
// its programs.
func (r *release) materials(arch string, built product.Built) error {
	doc, err := r.document(arch, built)
	if err != nil {
		return fmt.Errorf("bill of materials for %s: %w", arch, err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		return fmt.Errorf("bill of materials for %s: %w", arch, err)
	}
	var text bytes.Buffer
	if err := spdxjson.Write(doc, &text, spdxjson.Indent(" ")); err != nil {
		return err
	}
	return r.write(fmt.Sprintf("ovn-offload-%s-linux-%s.spdx.json", r.version, arch), text.String())
}

func (r *release) document(arch string, built product.Built) (*spdx.Document, error) {
	name := fmt.Sprintf("ovn-offload-%s-linux-%s", r.version, arch)
	m := &bill{known: map[common.ElementID]bool{}, doc: &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: fmt.Sprintf("https://%s/spdx/%s-%s", product.Module, name, built.Image.Digest.Encoded()),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "ovn-offload"}, {CreatorType: "Tool", Creator: "ovn-offload-release"}},
			Created:  r.Created.UTC().Format(time.RFC3339),
		},
	}}
	image := m.add("image", &spdx.Package{
		PackageName: r.repository, PackageVersion: r.version, PrimaryPackagePurpose: "CONTAINER", PackageLicenseDeclared: noAssertion,
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: built.Image.Digest.Encoded()}},
	}, fmt.Sprintf("pkg:oci/ovn-offload@%s?arch=%s&repository_url=%s", escape(built.Image.Digest.String()), arch, escape(r.repository)))
	m.relate("DOCUMENT", "DESCRIBES", image)
	packages, err := debian.Installed(built.Base)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		m.relate(image, "CONTAINS", m.debian(p, r.suite))
	}
	for _, path := range built.Programs {
		if err := m.program(image, path, r.version); err != nil {
			return nil, err
		}
	}
	return m.doc, nil
}

// bill is a bill of materials that is being written.
type bill struct {
	doc   *spdx.Document
	known map[common.ElementID]bool
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// add adds a package once, by an identifier of its kind, name and version.
func (m *bill) add(kind string, p *spdx.Package, purl string) common.ElementID {
	id := common.ElementID(notInID.ReplaceAllString(kind+"-"+p.PackageName+"-"+p.PackageVersion, "-"))
	if m.known[id] {
		return id
	}
	m.known[id] = true
	p.PackageSPDXIdentifier, p.PackageDownloadLocation = id, noAssertion
	p.PackageLicenseConcluded, p.PackageCopyrightText = noAssertion, noAssertion
	p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}}
	m.doc.Packages = append(m.doc.Packages, p)
	return id
}

func (m *bill) relate(from common.ElementID, kind string, to common.ElementID) {
	m.doc.Relationships = append(m.doc.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to)),
	})
}

func (m *bill) debian(p debian.Package, suite string) common.ElementID {
	purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=%s", escape(p.Name), escape(p.Version), p.Arch, suite)
	return m.add("deb", &spdx.Package{
		PackageName: p.Name, PackageVersion: p.Version, PackageLicenseDeclared: noAssertion, PackageHomePage: p.Homepage,
		PackageSupplier:        &common.Supplier{SupplierType: "Organization", Supplier: "Debian"},
		PackageOriginator:      &common.Originator{OriginatorType: "Person", Originator: p.Maintainer},
		PackageLicenseComments: "/usr/share/doc/" + p.Name + "/copyright in the image has the licences",
	}, purl)
}

// program adds one of our programs with the modules that the linker recorded in it.
func (m *bill) program(image common.ElementID, path, version string) error {
	build, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	program := m.add("program", &spdx.Package{PackageName: name, PackageVersion: version, PrimaryPackagePurpose: "APPLICATION", PackageLicenseDeclared: ours},
		fmt.Sprintf("pkg:golang/%s@%s#%s", product.Module, escape(version), strings.TrimPrefix(build.Path, product.Module+"/")))
	m.relate(image, "CONTAINS", program)
	goVersion := strings.TrimPrefix(strings.Fields(build.GoVersion)[0], "go")
	m.relate(program, "DEPENDS_ON", m.module("stdlib", goVersion))
	for _, d := range build.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		m.relate(program, "DEPENDS_ON", m.module(d.Path, d.Version))
	}
	return nil
}

func (m *bill) module(path, version string) common.ElementID {
	return m.add("go", &spdx.Package{PackageName: path, PackageVersion: version, PackageLicenseDeclared: noAssertion},
		fmt.Sprintf("pkg:golang/%s@%s", path, escape(version)))
}

// escape writes a part of a package URL.
func escape(part string) string { return url.QueryEscape(part) }
