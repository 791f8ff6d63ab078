package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fetch checks the names and sizes of the outputs and writes them into the folder Out. If
// one is wrong, none is left.
func (a *action) fetch(ctx context.Context, answer *repb.ExecuteResponse) (_ *result, err error) {
	said := answer.Result
	done := &result{ExitCode: said.ExitCode, Ephemeral: a.ephemeral, Stderr: a.stderr(ctx, said)}
	if said.ExitCode != 0 && len(said.OutputFiles) == 0 {
		return done, nil // the program failed, and left nothing
	}
	outputs, err := a.outputs(said, done.Stderr)
	if err != nil {
		return nil, err
	}
	folder, err := os.OpenRoot(a.request.Out)
	if err != nil {
		return nil, failf(kindConfig, "out: %v", err)
	}
	defer folder.Close()
	defer func() {
		if err != nil {
			for _, f := range done.Files {
				folder.Remove(path.Base(f.Path))
			}
		}
	}()
	var size int64
	var small []digest
	for _, o := range outputs {
		d := digestFrom(o.Digest)
		size += d.size
		if len(o.Contents) == 0 && d.size > 0 && d.size+entryBytes <= a.batch {
			small = append(small, d)
		}
	}
	ctx, cancel := within(ctx, a.transferTime(len(outputs), size))
	defer cancel()
	read := a.readBatches(ctx, small)
	for _, o := range outputs {
		d := digestFrom(o.Digest)
		data := o.Contents
		if len(data) == 0 {
			data = read[d]
		}
		f, err := folder.OpenFile(path.Base(o.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, failf(kindConfig, "out: %v", err)
		}
		done.Files = append(done.Files, file{Path: o.Path, SHA256: d.hash, Size: d.size})
		err = a.save(ctx, f, d, data, o.Path)
		if e := f.Close(); err == nil && e != nil {
			err = failf(kindConfig, "out: %v", e)
		}
		if err != nil {
			return nil, err
		}
	}
	if m := said.ExecutionMetadata; m != nil {
		e := &done.Ephemeral
		e.Worker = m.Worker
		e.QueuedMS = milliseconds(m.QueuedTimestamp, m.WorkerStartTimestamp)
		e.FetchedMS = milliseconds(m.InputFetchStartTimestamp, m.InputFetchCompletedTimestamp)
		e.ExecutedMS = milliseconds(m.ExecutionStartTimestamp, m.ExecutionCompletedTimestamp)
	}
	return done, nil
}

func digestFrom(d *repb.Digest) digest { return digest{d.GetHash(), d.GetSizeBytes()} }

// outputs returns the output files in the order of the request. Each has to be there, as a
// file within its bound, and nothing else.
func (a *action) outputs(said *repb.ActionResult, stderr string) ([]*repb.OutputFile, error) {
	//lint:ignore SA1019 servers of REAPI 2.0 set the deprecated fields
	links := len(said.OutputSymlinks) + len(said.OutputFileSymlinks) + len(said.OutputDirectorySymlinks)
	if links+len(said.OutputDirectories) > 0 {
		return nil, failf(kindBroken, "an output is a link or a folder where files were asked for")
	}
	found := map[string]*repb.OutputFile{}
	for _, o := range said.OutputFiles {
		if found[o.GetPath()] != nil {
			return nil, failf(kindBroken, "output %q is there twice", o.GetPath())
		}
		found[o.GetPath()] = o
	}
	var outputs []*repb.OutputFile
	for i, p := range a.request.Outputs {
		o := found[p]
		d := digestFrom(o.GetDigest())
		switch {
		case o == nil:
			return nil, failf(kindBroken, "output %q is missing; the action ended with status %d: %s", p, said.ExitCode, stderr)
		case !isHash(d.hash) || d.size < 0:
			return nil, failf(kindBroken, "output %q has no valid digest", p)
		case d.size > a.request.MaxBytes[i]:
			return nil, failf(kindBroken, "output %q has %d bytes; %d are allowed", p, d.size, a.request.MaxBytes[i])
		}
		outputs = append(outputs, o)
	}
	if len(found) != len(outputs) {
		return nil, failf(kindBroken, "the server names %d output files; %d were asked for", len(found), len(outputs))
	}
	return outputs, nil
}

// readBatches reads small blobs and returns what came, which is not checked yet. The others
// are left for ByteStream, as are all where the server has no BatchReadBlobs.
func (a *action) readBatches(ctx context.Context, small []digest) map[digest][]byte {
	read := map[digest][]byte{}
	for _, part := range a.parts(small) {
		if a.noBatchReads.Load() {
			break
		}
		request := &repb.BatchReadBlobsRequest{InstanceName: a.hello.Instance}
		for _, d := range part {
			request.Digests = append(request.Digests, d.proto())
		}
		answer, err := a.cas.BatchReadBlobs(ctx, request)
		if status.Code(err) == codes.Unimplemented {
			a.noBatchReads.Store(true)
		}
		for _, r := range answer.GetResponses() {
			read[digestFrom(r.GetDigest())] = r.GetData()
		}
	}
	return read
}

// save writes the bytes of d to f: data, if they are it, else what ByteStream brings. Wrong
// bytes are read once more.
func (a *action) save(ctx context.Context, f *os.File, d digest, data []byte, name string) error {
	if digestOf(data) == d {
		if _, err := f.Write(data); err != nil {
			return failf(kindConfig, "out: %v", err)
		}
		return nil
	}
	wrong := false
	return retry(ctx, func(wait grpc.CallOption) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return failf(kindConfig, "out: %v", err)
		}
		if err := f.Truncate(0); err != nil {
			return failf(kindConfig, "out: %v", err)
		}
		sum := sha256.New()
		n, err := a.readStream(ctx, d, io.MultiWriter(f, sum), d.size, wait)
		if err != nil {
			return err
		}
		if n == d.size && hex.EncodeToString(sum.Sum(nil)) == d.hash {
			return nil
		}
		again := !wrong && len(data) == 0
		wrong = true
		return &failure{kind: kindBroken, again: again, message: "output " + name + ": the server sent other bytes than those of its digest"}
	})
}

// readStream copies a blob to w, but no more than limit bytes, and returns how many came. The
// number is larger than limit if there are more.
func (c *client) readStream(ctx context.Context, d digest, w io.Writer, limit int64, wait grpc.CallOption) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	name := c.resource(fmt.Sprintf("blobs/%s/%d", d.hash, d.size))
	stream, err := c.bytes.Read(ctx, &bytestream.ReadRequest{ResourceName: name}, wait)
	if err != nil {
		return 0, fault(ctx, "ByteStream Read", err)
	}
	for n := int64(0); ; {
		m, err := stream.Recv()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, fault(ctx, "ByteStream Read", err)
		}
		if _, err := w.Write(m.Data[:min(int64(len(m.Data)), limit-n)]); err != nil {
			return n, failf(kindConfig, "out: %v", err)
		}
		if n += int64(len(m.Data)); n > limit {
			return n, nil
		}
	}
}

// stderr returns the start of what the action wrote to stderr, or nothing if that cannot be
// had. It is twice as long as what is printed, so that the value of a header is not cut.
func (a *action) stderr(ctx context.Context, said *repb.ActionResult) string {
	const limit = 2 * maxText
	text, d := said.StderrRaw, digestFrom(said.StderrDigest)
	if len(text) == 0 && d.size > 0 && isHash(d.hash) {
		ctx, cancel := within(ctx, min(a.transferTime(0, 0), 5*time.Second))
		defer cancel()
		var got bytes.Buffer
		a.readStream(ctx, d, &got, limit, grpc.WaitForReady(false)) // nothing depends on it
		if text = got.Bytes(); d.size <= limit && digestOf(text) != d {
			return ""
		}
	}
	return string(text[:min(len(text), limit)])
}
