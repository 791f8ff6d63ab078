//go:build linux && (amd64 || arm64)

package sandbox

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/kernel"
)

// Shown says whether every sandbox shows what stands at an absolute path of the host
// there, without being asked to.
func Shown(p string) bool {
	return slices.ContainsFunc(systemPaths, func(q string) bool { return kernel.Beneath(p, q) }) || slices.ContainsFunc(etcPaths, func(q string) bool { return kernel.Beneath(p, q) })
}

// reads are the paths of Read that a view of its own has to show: each once, and none
// that is shown with another one or by the view itself.
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

// shownEtc are the parts of /etc that a view shows as they are on the host.
func (h host) shownEtc(r Request) []string {
	return slices.DeleteFunc(slices.Clone(h.etc), func(p string) bool { return !r.Network && slices.Contains(etcNetwork, p) })
}

// system shows the host's programs, and an /etc that says nothing of the host but what is
// to be read of it.
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
