package main

import (
	"bytes"
	"fmt"
)

// The goals for executions on a worker.
const (
	goalRemote = 3.0 // of a bare action
	// The file, its folder, work, fiador and the root, spec.json, and the Action.
	goalBlobs = 7
)

// markdown is the section of the report about executions on a worker. It stands by itself: it can be
// from another day than the rest.
func (m *remoted) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	introduce(&b, "Remote", onlyRemote, on, m.load, quick)
	if m.absent != "" {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", m.absent)
		return b.Bytes()
	}
	fmt.Fprintf(&b, `
The worker is Bazel's RemoteWorker (%s, %s) on the same cores, in a network
namespace of the benchmark's own, with its state in memory (%s). All other folders lie on %s, and %s, where the
shim copies the inputs to, on %s. An ext4 without a journal passes over the inodes of files that were
removed in the last six minutes, and then copies take many times as long. Commands run under the
profile %s. The machine also did other work: the ratios count.
`, m.worker, m.java, remoteShared, m.on, workerTemp, m.temp, execProfile)
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	times := ratio(m.trues, remoteTrue, bareTrue)
	goal(&b, "`fiador exec --remote` of `true`, of a bare action", fmt.Sprintf("≤ %.2f", goalRemote), fmt.Sprintf("%.2f", times), times <= goalRemote)
	blobs := m.blobs(remoteWarm)
	goal(&b, fmt.Sprintf("uploads of a second run on %d files after one has changed", m.sizes.files), fmt.Sprintf("≤ %d", goalBlobs), fmt.Sprint(blobs), blobs <= goalBlobs)
	m.writeTrues(&b)
	m.writeFolders(&b)
	return b.Bytes()
}

func (m *remoted) writeTrues(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A command

%[1]sfiador exec --remote%[1]s of %[1]s%[2]s%[1]s on an empty folder. The server has stored what runs before it sent,
and so it uploads %[5]d files or messages. A bare action is %[1]ssh -c 'exec %[2]s >out'%[1]s with one output, which a process of the
same helper sends to the same worker. The worker copies the inputs of each action and hashes
them, and so there is also a bare action with the shim (%[3]s) as its input. Whole processes of
fiador, or of the helper, %[4]d rounds.
`, "`", trueProgram, kilo(m.shim), m.sizes.rounds, m.blobs(remoteTrue))
	besides(b, m.trues, bareTrue, "a bare action")
}

func (m *remoted) writeFolders(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A folder

%[1]sfiador work run --rerun%[1]s of one item on %[2]d files of 1 KB in %[3]d folders. Its agent is a shell that adds a
line to one file; there is no test. Either nothing is stored on the server before, or all that the run
before it sent: since then one file has changed. A bare action has the same folder as its input,
but not the shim, changes nothing, and finds its files listed and hashed. Uploads are what the helper says of the
run: files, Directory messages, %[1]sspec.json%[1]s and the Action count alike. A script beside the helper keeps
what it says. Whole processes, %[4]d rounds.
`, "`", m.sizes.files, (m.sizes.files+treeFolder-1)/treeFolder, m.sizes.edits)
	besides(b, m.folders, itemRun, "the item here")
	fmt.Fprintf(b, `
Nothing stored, the item takes %.2f of the time of the bare action; after a change, %.2f.

| | uploads | bytes |
|---|---:|---:|
`, ratio(m.folders, remoteCold, bareCold), ratio(m.folders, remoteWarm, bareWarm))
	for _, s := range m.folders {
		if m.sent[s.name] != nil {
			fmt.Fprintf(b, "| %s | %d | %s |\n", s.name, m.blobs(s.name), kilo(m.bytes(s.name)))
		}
	}
}

// blobs and bytes are medians of what a way has uploaded.
func (m *remoted) blobs(name string) int64 {
	return median(sentBy(m.sent[name], func(s sending) int64 { return s.Blobs }))
}

func (m *remoted) bytes(name string) int64 {
	return median(sentBy(m.sent[name], func(s sending) int64 { return s.Bytes }))
}

func sentBy(list []sending, get func(sending) int64) (out []int64) {
	for _, s := range list {
		out = append(out, get(s))
	}
	return out
}
