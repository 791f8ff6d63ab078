package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/bazelbuild/remote-apis/build/bazel/semver"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// made is what the actions of a liar put into out/b.
const made = "made\n"

type stream = grpc.ServerStreamingServer[longrunningpb.Operation]

// liar is a server of REAPI on loopback. It is honest but for the functions that are set.
type liar struct {
	repb.UnimplementedCapabilitiesServer
	repb.UnimplementedExecutionServer
	repb.UnimplementedContentAddressableStorageServer
	bytestream.UnimplementedByteStreamServer
	longrunningpb.UnimplementedOperationsServer

	address      string
	capabilities *repb.ServerCapabilities
	noBatchReads bool

	result  func(*repb.ActionResult)    // changes the honest one
	answer  func(*repb.ExecuteResponse) // changes the honest one
	execute func(n int, s stream) error // the nth call of Execute, from 1
	wait    func(n int, s stream) error // the nth call of WaitExecution, from 1
	read    func(n int, s bytestream.ByteStream_ReadServer) error
	write   func(bytestream.ByteStream_WriteServer) error
	update  func(*repb.BatchUpdateBlobsResponse) // changes the honest one
	lacking func(*repb.FindMissingBlobsResponse) // changes the honest one
	inspect func(context.Context, string) error  // sees each call before it is served

	mu       sync.Mutex
	blobs    map[string][]byte
	calls    map[string]int
	canceled []string
	batches  [][2]int // blobs and bytes in each
	asked    []int    // digests in each call of FindMissingBlobs
	uploads  map[string]int
}

func newLiar() *liar {
	l := &liar{blobs: map[string][]byte{}, calls: map[string]int{}, uploads: map[string]int{}}
	sha := []repb.DigestFunction_Value{repb.DigestFunction_SHA256}
	l.capabilities = &repb.ServerCapabilities{
		LowApiVersion: &semver.SemVer{Major: 2}, HighApiVersion: &semver.SemVer{Major: 2, Minor: 3},
		CacheCapabilities:     &repb.CacheCapabilities{DigestFunctions: sha},
		ExecutionCapabilities: &repb.ExecutionCapabilities{DigestFunction: sha[0], ExecEnabled: true},
	}
	l.put([]byte(made))
	return l
}

// serve starts the server.
func (l *liar) serve(t *testing.T, options ...grpc.ServerOption) *liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l.address = "grpc://" + listener.Addr().String()
	s := grpc.NewServer(append(options,
		grpc.UnaryInterceptor(func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := l.see(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, r)
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := l.see(ss.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, ss)
		}))...)
	repb.RegisterCapabilitiesServer(s, l)
	repb.RegisterExecutionServer(s, l)
	repb.RegisterContentAddressableStorageServer(s, l)
	bytestream.RegisterByteStreamServer(s, l)
	longrunningpb.RegisterOperationsServer(s, l)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	return l
}

// see counts a call and refuses it without RequestMetadata, as some servers do.
func (l *liar) see(ctx context.Context, method string) error {
	method = method[strings.LastIndexByte(method, '/')+1:]
	l.mu.Lock()
	l.calls[method]++
	l.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	m := &repb.RequestMetadata{}
	data := strings.Join(md["build.bazel.remote.execution.v2.requestmetadata-bin"], "")
	if err := proto.Unmarshal([]byte(data), m); err != nil || m.ToolInvocationId != "run_test" || m.CorrelatedInvocationsId != "run_test" ||
		m.GetToolDetails().GetToolName() != "fiador" || m.GetToolDetails().GetToolVersion() != "1.2.3" || !strings.HasPrefix(strings.Join(md["user-agent"], ""), "fiador/1.2.3 ") || (method == "GetCapabilities") != (m.ActionId == "") {
		return status.Errorf(codes.InvalidArgument, "the RequestMetadata of %s is %v, %v", method, m, err)
	}
	if l.inspect != nil {
		return l.inspect(ctx, method)
	}
	return nil
}

func (l *liar) count(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[method]
}

func (l *liar) put(data []byte) digest {
	d := digestOf(data)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blobs[d.hash] = data
	return d
}

func (l *liar) get(hash string) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data, ok := l.blobs[hash]
	return data, ok
}

func (l *liar) GetCapabilities(context.Context, *repb.GetCapabilitiesRequest) (*repb.ServerCapabilities, error) {
	return l.capabilities, nil
}

func (l *liar) FindMissingBlobs(_ context.Context, r *repb.FindMissingBlobsRequest) (*repb.FindMissingBlobsResponse, error) {
	answer := &repb.FindMissingBlobsResponse{}
	for _, d := range r.BlobDigests {
		if _, ok := l.get(d.Hash); !ok {
			answer.MissingBlobDigests = append(answer.MissingBlobDigests, d)
		}
	}
	l.mu.Lock()
	l.asked = append(l.asked, len(r.BlobDigests))
	l.mu.Unlock()
	if l.lacking != nil {
		l.lacking(answer)
	}
	return answer, nil
}

func (l *liar) take(d *repb.Digest, data []byte) error {
	if got := digestOf(data); got != digestFrom(d) {
		return status.Errorf(codes.InvalidArgument, "%d bytes are not those of %s", len(data), d.GetHash())
	}
	l.put(data)
	l.mu.Lock()
	l.uploads[d.Hash]++
	l.mu.Unlock()
	return nil
}

func (l *liar) BatchUpdateBlobs(_ context.Context, r *repb.BatchUpdateBlobsRequest) (*repb.BatchUpdateBlobsResponse, error) {
	answer := &repb.BatchUpdateBlobsResponse{}
	size := 0
	for _, one := range r.Requests {
		size += len(one.Data)
		answer.Responses = append(answer.Responses, &repb.BatchUpdateBlobsResponse_Response{
			Digest: one.Digest, Status: status.Convert(l.take(one.Digest, one.Data)).Proto(),
		})
	}
	l.mu.Lock()
	l.batches = append(l.batches, [2]int{len(r.Requests), size})
	l.mu.Unlock()
	if l.update != nil {
		l.update(answer)
	}
	return answer, nil
}

func (l *liar) BatchReadBlobs(_ context.Context, r *repb.BatchReadBlobsRequest) (*repb.BatchReadBlobsResponse, error) {
	if l.noBatchReads {
		return nil, status.Error(codes.Unimplemented, "not here")
	}
	answer := &repb.BatchReadBlobsResponse{}
	for _, d := range r.Digests {
		data, ok := l.get(d.Hash)
		one := &repb.BatchReadBlobsResponse_Response{Digest: d, Data: data}
		if !ok {
			one.Status = status.New(codes.NotFound, "no such blob").Proto()
		}
		answer.Responses = append(answer.Responses, one)
	}
	return answer, nil
}

func (l *liar) Read(r *bytestream.ReadRequest, s bytestream.ByteStream_ReadServer) error {
	if l.read != nil {
		return l.read(l.count("Read"), s)
	}
	parts := strings.Split(r.ResourceName, "/")
	data, ok := l.get(parts[max(0, len(parts)-2)])
	if !ok || parts[max(0, len(parts)-3)] != "blobs" {
		return status.Error(codes.NotFound, r.ResourceName)
	}
	for len(data) > 0 {
		n := min(len(data), 1000)
		if err := s.Send(&bytestream.ReadResponse{Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (l *liar) Write(s bytestream.ByteStream_WriteServer) error {
	if l.write != nil {
		return l.write(s)
	}
	var name string
	var data []byte
	for {
		m, err := s.Recv()
		if err == io.EOF {
			return status.Error(codes.InvalidArgument, "no finish_write")
		}
		if err != nil {
			return err
		}
		if name == "" {
			name = m.ResourceName
		}
		if m.WriteOffset != int64(len(data)) {
			return status.Error(codes.InvalidArgument, "wrong offset")
		}
		data = append(data, m.Data...)
		if m.FinishWrite {
			break
		}
	}
	parts := strings.Split(name, "/")
	if len(parts) < 5 || parts[len(parts)-5] != "uploads" || parts[len(parts)-3] != "blobs" {
		return status.Error(codes.InvalidArgument, name)
	}
	size, _ := strconv.ParseInt(parts[len(parts)-1], 10, 64)
	if err := l.take(&repb.Digest{Hash: parts[len(parts)-2], SizeBytes: size}, data); err != nil {
		return err
	}
	return s.SendAndClose(&bytestream.WriteResponse{CommittedSize: size})
}

func (l *liar) Execute(r *repb.ExecuteRequest, s stream) error {
	if !r.SkipCacheLookup || !r.InlineStderr {
		return status.Error(codes.InvalidArgument, "the cache is asked, or stderr is not")
	}
	if err := l.whole(r.ActionDigest); err != nil {
		return err
	}
	if l.execute != nil {
		return l.execute(l.count("Execute"), s)
	}
	if err := s.Send(&longrunningpb.Operation{Name: "operations/1"}); err != nil {
		return err
	}
	return l.finish(s)
}

func (l *liar) WaitExecution(r *repb.WaitExecutionRequest, s stream) error {
	if l.wait != nil && strings.HasPrefix(r.Name, "operations/") {
		return l.wait(l.count("WaitExecution"), s)
	}
	return status.Error(codes.NotFound, "no operation "+r.Name)
}

func (l *liar) CancelOperation(_ context.Context, r *longrunningpb.CancelOperationRequest) (*emptypb.Empty, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.canceled = append(l.canceled, r.Name)
	return &emptypb.Empty{}, nil
}

// response is the honest one, changed by result and answer.
func (l *liar) response() *repb.ExecuteResponse {
	b := &repb.OutputFile{Path: "out/b", Digest: digestOf([]byte(made)).proto()}
	r := &repb.ExecuteResponse{Result: &repb.ActionResult{OutputFiles: []*repb.OutputFile{b}}}
	if l.result != nil {
		l.result(r.Result)
	}
	if l.answer != nil {
		l.answer(r)
	}
	return r
}

// finish sends the last message of an operation.
func (l *liar) finish(s stream) error {
	packed, err := anypb.New(l.response())
	if err != nil {
		return err
	}
	return s.Send(&longrunningpb.Operation{Name: "operations/1", Done: true, Result: &longrunningpb.Operation_Response{Response: packed}})
}

// whole refuses an action unless it and its whole input root are here.
func (l *liar) whole(d *repb.Digest) error {
	var action repb.Action
	var command repb.Command
	err := l.parse(d, &action)
	if err == nil {
		err = l.parse(action.CommandDigest, &command)
	}
	if err == nil {
		err = l.tree(action.InputRootDigest, "", nil)
	}
	//lint:ignore SA1019 servers of REAPI 2.0 read the deprecated fields
	files, platform := command.OutputFiles, command.Platform
	if err == nil && (!action.DoNotCache || action.Timeout == nil || len(files) == 0 || !proto.Equal(platform, action.Platform) ||
		strings.Join(files, " ") != strings.Join(command.OutputPaths, " ")) {
		err = status.Errorf(codes.InvalidArgument, "action %v, command %v", &action, &command)
	}
	return err
}

func (l *liar) parse(d *repb.Digest, m proto.Message) error {
	data, ok := l.get(d.GetHash())
	if !ok || int64(len(data)) != d.GetSizeBytes() {
		return lacksBlob(d)
	}
	return proto.Unmarshal(data, m)
}

// tree walks a folder and calls file for each file, if it is set.
func (l *liar) tree(d *repb.Digest, under string, file func(path string, n *repb.FileNode)) error {
	var folder repb.Directory
	if err := l.parse(d, &folder); err != nil {
		return err
	}
	before := ""
	for _, n := range folder.Files {
		if _, ok := l.get(n.Digest.Hash); !ok {
			return lacksBlob(n.Digest)
		}
		if n.Name <= before {
			return fmt.Errorf("%q after %q", n.Name, before)
		}
		before = n.Name
		if file != nil {
			file(under+n.Name, n)
		}
	}
	before = ""
	for _, n := range folder.Directories {
		if n.Name <= before {
			return fmt.Errorf("%q after %q", n.Name, before)
		}
		before = n.Name
		if err := l.tree(n.Digest, under+n.Name+"/", file); err != nil {
			return err
		}
	}
	return nil
}

// lacksBlob is how a server says that an input is not there.
func lacksBlob(d *repb.Digest) error {
	s, err := status.New(codes.FailedPrecondition, "a blob is missing").WithDetails(&errdetails.PreconditionFailure{
		Violations: []*errdetails.PreconditionFailure_Violation{{Type: "MISSING", Subject: fmt.Sprintf("blobs/%s/%d", d.GetHash(), d.GetSizeBytes())}},
	})
	if err != nil {
		return err
	}
	return s.Err()
}
