package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

const (
	askedAtOnce  = 10_000    // digests in one call of FindMissingBlobs
	sentAtOnce   = 1000      // blobs in one batch, as servers store one after the other
	entryBytes   = 128       // of a batch for each blob beside its bytes, at most
	chunkBytes   = 256 << 10 // in one message of ByteStream
	leastASecond = 1 << 20   // bytes, and
	leastBlobs   = 64        // blobs; a slower server counts as one that does not answer
)

// transferTime is how long blobs of size bytes together may take.
func (c *client) transferTime(count int, size int64) time.Duration {
	return time.Duration(c.hello.WaitMS)*time.Millisecond + time.Duration(size/leastASecond+int64(count)/leastBlobs)*time.Second
}

// upload sends the blobs that the server lacks and returns how many and how large they are. What
// another action is sending is left to it, and is asked for again when that has ended.
func (c *client) upload(ctx context.Context, all blobs) (files, size int64, err error) {
	for left := all; len(left) > 0; {
		asking, cancel := within(ctx, c.transferTime(0, 0))
		lacking, err := c.missing(asking, left)
		cancel()
		if err != nil {
			return files, size, err
		}
		mine, others, end := c.claim(lacking)
		n, err := c.sendAll(ctx, mine, all)
		end()
		files, size = files+int64(len(mine)), size+n
		if err != nil {
			return files, size, err
		}
		left = blobs{}
		for d, sent := range others {
			left[d] = all[d]
			select {
			case <-sent:
			case <-ctx.Done():
				return files, size, fault(ctx, "upload", context.Cause(ctx))
			}
		}
	}
	return files, size, nil
}

// claim divides digests into those that nobody sends yet and those that another action sends.
// end has to be called when the first have been sent, or have not.
func (c *client) claim(digests []digest) (mine []digest, others map[digest]chan struct{}, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := make(chan struct{})
	others = map[digest]chan struct{}{}
	for _, d := range digests {
		if other := c.sending[d]; other != nil {
			others[d] = other
			continue
		}
		c.sending[d] = sent
		mine = append(mine, d)
	}
	return mine, others, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, d := range mine {
			delete(c.sending, d)
		}
		close(sent)
	}
}

// sendAll sends blobs and returns how large they are.
func (c *client) sendAll(ctx context.Context, digests []digest, all blobs) (size int64, err error) {
	for _, d := range digests {
		size += d.size
	}
	var jobs []func(context.Context) error
	for _, part := range c.parts(digests) {
		jobs = append(jobs, func(ctx context.Context) error {
			return retry(ctx, func(wait grpc.CallOption) error {
				if len(part) == 1 && part[0].size+entryBytes > c.batch {
					return c.writeStream(ctx, part[0], all[part[0]], wait)
				}
				return c.writeBatch(ctx, part, all, wait)
			})
		})
	}
	return size, c.each(ctx, c.transferTime(len(digests), size), jobs)
}

// missing returns the digests of all that the server lacks, in order.
func (c *client) missing(ctx context.Context, all blobs) ([]digest, error) {
	digests := slices.SortedFunc(maps.Keys(all), func(a, b digest) int { return strings.Compare(a.hash, b.hash) })
	lacking := map[digest]bool{}
	for part := range slices.Chunk(digests, askedAtOnce) {
		request := &repb.FindMissingBlobsRequest{InstanceName: c.hello.Instance}
		for _, d := range part {
			request.BlobDigests = append(request.BlobDigests, d.proto())
		}
		err := retry(ctx, func(wait grpc.CallOption) error {
			answer, err := c.cas.FindMissingBlobs(ctx, request, wait)
			if err != nil {
				return fault(ctx, "FindMissingBlobs", err)
			}
			for _, d := range answer.MissingBlobDigests {
				lacking[digest{d.GetHash(), d.GetSizeBytes()}] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var found []digest
	for _, d := range digests {
		if lacking[d] {
			found = append(found, d)
		}
	}
	if len(found) != len(lacking) {
		return nil, failf(kindBroken, "FindMissingBlobs: the server names blobs that it was not asked for")
	}
	return found, nil
}

// parts divides digests into batches. A blob that fits into none is alone.
func (c *client) parts(digests []digest) (parts [][]digest) {
	var batch []digest
	var size int64
	for _, d := range digests {
		with := d.size + entryBytes
		if len(batch) > 0 && (size+with > c.batch || len(batch) == sentAtOnce) {
			parts, batch, size = append(parts, batch), nil, 0
		}
		batch, size = append(batch, d), size+with
	}
	if len(batch) > 0 {
		parts = append(parts, batch)
	}
	return parts
}

// each runs jobs side by side, within limit from the first one's start. The first that fails ends
// the others.
func (c *client) each(ctx context.Context, limit time.Duration, jobs []func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for i, job := range jobs {
		select {
		case <-ctx.Done():
		case c.transfers <- struct{}{}:
			if i == 0 {
				var cancel context.CancelFunc
				ctx, cancel = within(ctx, limit)
				defer cancel()
			}
			all.Go(func() {
				defer func() { <-c.transfers }()
				if err := job(ctx); err != nil {
					stop(err)
				}
			})
		}
	}
	all.Wait()
	if ctx.Err() != nil {
		return fault(ctx, "upload", context.Cause(ctx)) // attempts were made, so it is final
	}
	return nil
}

func changed(b blob, err error) *failure {
	return failf(kindChanged, "%q changed while it was uploaded: %v", b.path, err)
}

// writeBatch sends small blobs.
func (c *client) writeBatch(ctx context.Context, part []digest, all blobs, wait grpc.CallOption) error {
	request := &repb.BatchUpdateBlobsRequest{InstanceName: c.hello.Instance}
	for _, d := range part {
		data, err := all[d].read(d)
		if err != nil {
			return changed(all[d], err)
		}
		request.Requests = append(request.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: d.proto(), Data: data})
	}
	answer, err := c.cas.BatchUpdateBlobs(ctx, request, wait)
	if err != nil {
		return fault(ctx, "BatchUpdateBlobs", err)
	}
	for _, r := range answer.Responses {
		if err := status.FromProto(r.GetStatus()).Err(); err != nil {
			return fault(ctx, "BatchUpdateBlobs", err)
		}
	}
	if len(answer.Responses) != len(part) { // some servers name no digests in their answers
		return &failure{kind: kindBroken, again: true,
			message: fmt.Sprintf("BatchUpdateBlobs: the server answers for %d blobs of %d", len(answer.Responses), len(part))}
	}
	return nil
}

// read returns the bytes of a small blob if they are still those of d.
func (b blob) read(d digest) ([]byte, error) {
	r, err := b.reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, d.size+1))
	if err == nil && digestOf(data) != d {
		err = errors.New("its bytes are not those of its hash")
	}
	return data, err
}

// writeStream sends one blob. The last chunk follows only if all bytes are those of d, so
// that the server never completes another blob.
func (c *client) writeStream(ctx context.Context, d digest, b blob, wait grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := b.reader()
	if err != nil {
		return changed(b, err)
	}
	defer from.Close()
	stream, err := c.bytes.Write(ctx, wait)
	if err != nil {
		return fault(ctx, "ByteStream Write", err)
	}
	name := c.resource(fmt.Sprintf("uploads/%s/blobs/%s/%d", uuid(), d.hash, d.size))
	sum, sent := sha256.New(), int64(0)
	for finish := false; !finish; {
		chunk := make([]byte, min(chunkBytes, d.size-sent))
		if err := readChunk(from, chunk, sum, d, sent); err != nil {
			return changed(b, err)
		}
		finish = sent+int64(len(chunk)) == d.size
		err := stream.Send(&bytestream.WriteRequest{ResourceName: name, WriteOffset: sent, Data: chunk, FinishWrite: finish})
		if err == io.EOF {
			break // the server has answered: it has the blob already, or an error
		}
		if err != nil {
			return fault(ctx, "ByteStream Write", err)
		}
		sent += int64(len(chunk))
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return fault(ctx, "ByteStream Write", err)
	}
	if answer.CommittedSize != d.size {
		return &failure{kind: kindBroken, again: true,
			message: fmt.Sprintf("ByteStream Write: the server took %d bytes of %d", answer.CommittedSize, d.size)}
	}
	return nil
}

// readChunk fills chunk. If it is the last one of d, the hash and the end have to be right.
func readChunk(from io.Reader, chunk []byte, sum hash.Hash, d digest, sent int64) error {
	if _, err := io.ReadFull(from, chunk); err != nil {
		return err
	}
	sum.Write(chunk)
	if sent+int64(len(chunk)) < d.size {
		return nil
	}
	if n, _ := from.Read(make([]byte, 1)); n != 0 || hex.EncodeToString(sum.Sum(nil)) != d.hash {
		return errors.New("its bytes are not those of its hash")
	}
	return nil
}

// resource puts the instance before a name of ByteStream.
func (c *client) resource(name string) string {
	if c.hello.Instance == "" {
		return name
	}
	return c.hello.Instance + "/" + name
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
