package main

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/dsse"
	"github.com/fiador/fiador/kernel/canon"
)

// formula writes the Homebrew formula of the archives for macOS and Linux.
func (r *release) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, `class Fiador < Formula
  desc "Safety catch for the intents of agents"
  homepage "https://github.com/fiador/fiador"
  version %q
  license "Apache-2.0"
`, r.version())
	for _, system := range [][2]string{{"darwin", "macos"}, {"linux", "linux"}} {
		archives := r.named("fiador_"+r.version()+"_"+system[0], ".tar.gz")
		if len(archives) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n  on_%s do\n", system[1])
		for _, f := range archives {
			cpu := "intel"
			if strings.Contains(f.name, "_arm64.") {
				cpu = "arm"
			}
			fmt.Fprintf(&b, "    on_%s do\n      url %q\n      sha256 %q\n    end\n", cpu, r.url(f.name), f.sha256)
		}
		b.WriteString("  end\n")
	}
	b.WriteString(`
  def install
    bin.install "fiador"
    bin.install "safe-run" if OS.linux?
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/fiador.bash" => "fiador"
    zsh_completion.install "completions/_fiador"
    fish_completion.install "completions/fiador.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/fiador version")
  end
end
`)
	return r.put("fiador.rb", []byte(b.String()))
}

// block writes the step of a job that uses the action, with the hashes of all archives.
func (r *release) block() error {
	var b strings.Builder
	fmt.Fprintf(&b, "      - uses: fiador/fiador/action@%s # %s\n        with:\n          version: %s\n          sha256: |\n", cmp.Or(r.commit, "COMMIT"), r.tag, r.tag)
	for _, f := range r.named("fiador_", ".tar.gz") {
		fmt.Fprintf(&b, "            %s  %s\n", f.sha256, f.name)
	}
	return r.put("action-block.yml", []byte(b.String()))
}

// payloadType is the type of the signed text.
const payloadType = "text/vnd.fiador.checksums"

// checksums writes the checksums of all files and, with a key, three files that prove them:
// an envelope, the signature in it as openssl reads it, and the public key.
func (r *release) checksums() error {
	slices.SortFunc(r.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var sums []byte
	for _, f := range r.files {
		sums = fmt.Appendf(sums, "%s  %s\n", f.sha256, f.name)
	}
	if err := r.save("checksums.txt", sums); err != nil || r.key == nil {
		return err
	}
	e := dsse.Envelope{PayloadType: payloadType}
	if err := e.Sign(sums, r.key); err != nil {
		return err
	}
	if _, err := e.Check(r.key.Verifier()); err != nil {
		return err
	}
	envelope, err := canon.Canonical(e.Document())
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(r.key.Verifier().PublicKey())
	return errors.Join(err,
		r.save("checksums.txt.dsse.json", append(envelope, '\n')),
		r.save("checksums.txt.sig", e.Signatures[0].Sig),
		r.save("checksums.txt.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}
