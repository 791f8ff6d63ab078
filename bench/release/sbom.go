package main

import (
	"cmp"
	"regexp"
	"strings"
	"time"
)

// The members of SPDX 2.3 that the document has.
type spdx struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string        `json:"SPDXID"`
	Name      string        `json:"name"`
	Version   string        `json:"versionInfo"`
	File      string        `json:"packageFileName,omitempty"`
	Location  string        `json:"downloadLocation"`
	Analyzed  bool          `json:"filesAnalyzed"`
	Checksums []checksum    `json:"checksums,omitempty"`
	Source    string        `json:"sourceInfo,omitempty"`
	Concluded string        `json:"licenseConcluded"`
	Declared  string        `json:"licenseDeclared"`
	Copyright string        `json:"copyrightText"`
	Refs      []externalRef `json:"externalRefs,omitempty"`
	Purpose   string        `json:"primaryPackagePurpose"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// sbom writes what the archives, images and shims contain, as an SPDX document.
func (r *release) sbom() error {
	name := "fiador_" + r.version()
	commit := cmp.Or(r.commit, "trial")
	const document = "SPDXRef-DOCUMENT"
	product := packageOf("github.com/fiador/fiador", r.tag, "git+https://github.com/fiador/fiador@"+commit, "Apache-2.0", "APPLICATION")
	product.Refs = purl(product.Name, r.tag)
	doc := spdx{
		"SPDX-2.3", "CC0-1.0", document, name, "https://github.com/fiador/fiador/spdx/" + r.tag + "/" + commit,
		creation{r.at.Format(time.RFC3339), []string{"Tool: fiador-release-" + r.version(), "Organization: fiador"}},
		[]spdxPackage{product}, []relationship{{document, "DESCRIBES", product.ID}},
	}
	seen := map[string]bool{}
	for _, f := range r.files {
		if len(f.modules) == 0 {
			continue
		}
		purpose := "FILE"
		switch {
		case strings.HasSuffix(f.name, ".tar.gz"):
			purpose = "ARCHIVE"
		case strings.HasSuffix(f.name, ".oci.tar"):
			purpose = "CONTAINER"
		}
		made := packageOf(f.name, r.tag, r.url(f.name), "NOASSERTION", purpose)
		made.File, made.Checksums = f.name, []checksum{{"SHA256", f.sha256}}
		doc.Packages = append(doc.Packages, made)
		doc.Relationships = append(doc.Relationships, relationship{document, "DESCRIBES", made.ID}, relationship{made.ID, "GENERATED_FROM", product.ID})
		for _, m := range f.modules {
			p := m.spdx()
			if !seen[p.ID] {
				seen[p.ID] = true
				doc.Packages = append(doc.Packages, p)
			}
			doc.Relationships = append(doc.Relationships, relationship{made.ID, "CONTAINS", p.ID})
		}
	}
	return r.put(name+".spdx.json", marshal(doc))
}

// spdx returns the package of a module. The sum of a module is one over names and hashes
// of files, and so no checksum of a download.
func (m module) spdx() spdxPackage {
	// The purl says where a module comes from: a proxy is each builder's own choice.
	p := packageOf(m.path, m.version, "NOASSERTION", m.licence, "LIBRARY")
	p.Refs = purl(m.path, m.version)
	if m.path == stdlib {
		p.Location = "https://go.dev/dl/go" + m.version + ".src.tar.gz"
	} else {
		p.Source = "go.sum " + m.sum
	}
	return p
}

func packageOf(name, version, location, licence, purpose string) spdxPackage {
	return spdxPackage{
		ID:   "SPDXRef-Package-" + regexp.MustCompile(`[^A-Za-z0-9.-]`).ReplaceAllString(name+"-"+version, "-"),
		Name: name, Version: version, Location: location, Purpose: purpose,
		Concluded: "NOASSERTION", Declared: licence, Copyright: "NOASSERTION",
	}
}

func purl(path, version string) []externalRef {
	return []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")}}
}
