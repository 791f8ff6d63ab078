package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
)

// server is what GetCapabilities says.
type server struct {
	LowAPI          string   `json:"low_api"`
	HighAPI         string   `json:"high_api"`
	DigestFunctions []string `json:"digest_functions"`
	Execution       bool     `json:"execution"`
	MaxBatchBytes   int64    `json:"max_batch_bytes"` // 0: it names no limit
}

// greet asks the server what it can do and refuses it if that is not enough.
func (c *client) greet(ctx context.Context) (*server, error) {
	ctx, cancel := within(c.outgoing(ctx, ""), time.Duration(c.hello.WaitMS)*time.Millisecond)
	defer cancel()
	ask := func(from repb.CapabilitiesClient) (answer *repb.ServerCapabilities, err error) {
		err = retry(ctx, func(grpc.CallOption) error {
			if answer, err = from.GetCapabilities(ctx, &repb.GetCapabilitiesRequest{InstanceName: c.hello.Instance}); err != nil {
				return fault(ctx, "GetCapabilities", err)
			}
			return nil
		})
		return answer, err
	}
	said, err := ask(c.capabilities)
	if err != nil {
		return nil, err
	}
	cache := said.GetCacheCapabilities()
	if c.casCapabilities != nil {
		at, err := ask(c.casCapabilities)
		if err != nil {
			return nil, err
		}
		cache = at.GetCacheCapabilities()
	}
	return c.accept(said, cache)
}

func (c *client) accept(said *repb.ServerCapabilities, cache *repb.CacheCapabilities) (*server, error) {
	low, high := said.GetLowApiVersion(), said.GetHighApiVersion()
	execution := said.GetExecutionCapabilities()
	s := &server{
		LowAPI:    fmt.Sprintf("%d.%d", low.GetMajor(), low.GetMinor()),
		HighAPI:   fmt.Sprintf("%d.%d", high.GetMajor(), high.GetMinor()),
		Execution: execution.GetExecEnabled(), MaxBatchBytes: cache.GetMaxBatchTotalSizeBytes(),
	}
	functions := execution.GetDigestFunctions()
	if len(functions) == 0 {
		functions = []repb.DigestFunction_Value{execution.GetDigestFunction()}
	}
	for _, f := range functions {
		if slices.Contains(cache.GetDigestFunctions(), f) {
			s.DigestFunctions = append(s.DigestFunctions, f.String())
		}
	}
	switch {
	case high.GetMajor() < 2:
		return nil, failf(kindConfig, "the server speaks REAPI up to %s; 2.0 is needed", s.HighAPI)
	case low.GetMajor() > 2:
		return nil, failf(kindConfig, "the server speaks REAPI from %s on; 2.0 is needed", s.LowAPI)
	case !s.Execution:
		return nil, failf(kindConfig, "the server executes nothing for instance %q", c.hello.Instance)
	case !slices.Contains(s.DigestFunctions, "SHA256"):
		return nil, failf(kindConfig, "the server does not take SHA-256 for both blobs and actions")
	}
	if s.MaxBatchBytes > 0 {
		c.batch = min(c.batch, s.MaxBatchBytes)
	}
	return s, nil
}
