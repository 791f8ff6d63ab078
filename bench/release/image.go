package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsModule has the root certificates of the image.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// The documents of the OCI image specification 1.1, with the members that the image has.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

type imageConfig struct {
	Created string `json:"created"`
	platform
	Config  container `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
	History []history `json:"history"`
}

type container struct {
	User       string
	Env        []string
	Entrypoint []string
	WorkingDir string
	Labels     map[string]string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// loadable is manifest.json, which docker load reads where it does not read index.json.
type loadable struct {
	Config   string
	RepoTags []string
	Layers   []string
}

const ociImage = "application/vnd.oci.image."

// image writes the image of the programs as an OCI image layout in a tar archive. It has
// one layer without shell and libraries, and the user 65532.
func (r *release) image(name, arch string, programs tree, modules []module) error {
	roots, err := r.moduleOf(rootsModule)
	if err != nil {
		return err
	}
	modules = append(modules[:len(modules):len(modules)], roots)
	layer, err := r.tar(r.layer(programs, modules))
	if err != nil {
		return err
	}
	packed, err := zipped(layer)
	if err != nil {
		return err
	}
	created := r.at.Format(time.RFC3339)
	about := map[string]string{
		"org.opencontainers.image.title":    "fiador",
		"org.opencontainers.image.version":  r.version(),
		"org.opencontainers.image.source":   "https://github.com/fiador/fiador",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.created":  created,
	}
	if r.commit != "" {
		about["org.opencontainers.image.revision"] = r.commit
	}
	on := platform{arch, "linux"}
	t := tree{"blobs/": nil, "blobs/sha256/": nil, "oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	top := t.blob(ociImage+"layer.v1.tar+gzip", packed)
	config := t.document(ociImage+"config.v1+json", imageConfig{
		Created: created, platform: on,
		Config: container{"65532:65532", []string{"PATH=/usr/local/bin"}, []string{"/usr/local/bin/fiador"}, "/work", about},
		RootFS: rootFS{"layers", []string{digest(layer)}}, History: []history{{created, ".ci/release"}},
	})
	image := t.document(ociImage+"manifest.v1+json", manifest{2, ociImage + "manifest.v1+json", config, []descriptor{top}, about})
	image.Platform = &on
	image.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": r.version(),
		"io.containerd.image.name":          "docker.io/library/fiador:" + r.version(),
	}
	t["index.json"] = marshal(index{2, ociImage + "index.v1+json", []descriptor{image}})
	t["manifest.json"] = marshal([]loadable{{blobName(config.Digest), []string{"fiador:" + r.version()}, []string{blobName(top.Digest)}}})
	b, err := r.tar(t)
	if err != nil {
		return err
	}
	return r.put(name, b, modules...)
}

// layer returns the files of the image. A call of a model or a service needs the
// certificates, and a demo and an execution need /tmp.
func (r *release) layer(programs tree, modules []module) tree {
	t := tree{
		"etc/passwd": []byte("root:x:0:0:root:/:/nologin\nfiador:x:65532:65532:fiador:/tmp:/nologin\n"),
		"etc/group":  []byte("root:x:0:\nfiador:x:65532:\n"),

		"usr/local/bin/fiador":               programs["fiador"],
		"usr/local/bin/safe-run":             programs["safe-run"],
		"usr/share/doc/fiador/LICENSE":       programs["LICENSE"],
		"usr/share/doc/fiador/" + thirdParty: licencesOf(modules),
		"etc/ssl/certs/ca-certificates.crt":  certificates(),
		"tmp/":                               nil,
		"work/":                              nil,
	}
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/", "usr/share/", "usr/share/doc/", "usr/share/doc/fiador/"} {
		t[dir] = nil
	}
	return t
}

// certificates returns the roots that Mozilla trusts without a condition. A file cannot
// express the conditions of others.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}

func (t tree) document(mediaType string, v any) descriptor { return t.blob(mediaType, marshal(v)) }

// blob adds a blob to an image layout.
func (t tree) blob(mediaType string, b []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(b), Size: len(b)}
	t[blobName(d.Digest)] = b
	return d
}

func blobName(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// marshal returns a document of one of our types, which have nothing that JSON lacks.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}
