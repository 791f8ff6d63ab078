//go:build linux && (amd64 || arm64)

package sandbox

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/kernel"
)

// Shown says whether every sandbox shows an absolute path of the host at the same path,
// without a request for it.
func Shown(p string) bool {
	return slices.ContainsFunc(systemPaths, func(q string) bool { return kernel.Beneath(p, q) }) || slices.ContainsFunc(etcPaths, func(q string) bool { return kernel.Beneath(p, q) })
}

// reads returns the paths of Read that a view of its own must add. Each path is listed once.
// Paths beneath another listed path, and paths that the view shows anyway, are left out.
func (h host) reads(r Request) []string {
	shown := slices.Concat(h.system, h.shownEtc(r))
	for _, l := range h.links {
		p, _, _ := strings.Cut(l, "=")
		shown = append(shown, p)
	}
	var list []string
	for i, p := range r.Read {
		known := slices.ContainsFunc(shown, func(q string) bool { return kernel.Beneath(p, q) })
		for k, q := range r.Read {
			known = known || kernel.Beneath(p, q) && (p != q || k < i)
		}
		if !known {
			list = append(list, p)
		}
	}
	return list
}

// shownEtc returns the parts of /etc that a view shows unchanged from the host.
func (h host) shownEtc(r Request) []string {
	return slices.DeleteFunc(slices.Clone(h.etc), func(p string) bool { return !r.Network && slices.Contains(etcNetwork, p) })
}

// system shows the host's programs and a made /etc. That /etc reveals nothing about the host
// except the paths in read.
func (b *builder) system(h host, etc, read []string) {
	own := func(p, text string) {
		if !slices.Contains(read, "/"+p) {
			b.file(p, text)
		}
	}
	for _, l := range h.links {
		p, target, _ := strings.Cut(l, "=")
		b.add(initproc.Step{Op: initproc.OpLink, To: strings.TrimPrefix(p, "/"), Text: target})
	}
	for _, p := range h.system {
		b.placeAt(p, false)
	}
	own("etc/passwd", "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	own("etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n")
	own("etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n")
	own("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
	if !slices.Contains(etc, "/etc/resolv.conf") {
		own("etc/resolv.conf", "")
	}
	for _, p := range etc {
		b.placeAt(p, isFile(p))
	}
}
