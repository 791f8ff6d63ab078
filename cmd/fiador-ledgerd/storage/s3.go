package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

const (
	objectTime   = 10 * time.Second // for a small object, with all attempts
	maxObject    = 8 << 20          // bytes of a file of the log; the largest is 256 entries
	objectAnswer = 5 * time.Second  // until an answer begins
	maxSeen      = 65_536           // blobs that a bucket remembers
	seenTime     = time.Minute      // until it forgets them
)

// bucket keeps tiles and evidence as objects of S3: the log as C2SP tlog-tiles wants it, and
// evidence as in a folder. It has one log: Tessera 1.0.4 cannot write a tile again below a
// prefix, as it must after an interruption.
type bucket struct {
	name   string
	config aws.Config
	client *awss3.Client
	seen   seen
}

// seen remembers blobs that are in the bucket, with their sizes, and forgets all of them when a
// minute has passed or it is full. So a record costs no request if its evidence is that of a
// record shortly before. What is lost from the bucket meanwhile is found by check and verify,
// which read the bucket itself.
type seen struct {
	mu    sync.Mutex
	begun time.Time
	sizes map[canon.ContentHash]int64
}

func (s *seen) has(b ledger.Blob) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, ok := s.sizes[b.SHA256]
	return ok && size == b.Size && time.Since(s.begun) < seenTime
}

func (s *seen) add(h canon.ContentHash, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sizes) >= maxSeen || time.Since(s.begun) >= seenTime {
		s.begun, s.sizes = time.Now(), map[canon.ContentHash]int64{}
	}
	s.sizes[h] = size
}

const formS3 = "--s3 is s3://BUCKET, and for a server that is not of AWS ?endpoint=https://HOST[:PORT]&region=REGION behind it"

// openBucket reads an address as s3://BUCKET?endpoint=URL&region=REGION. The
// credentials are those of the environment, as all programs for AWS take them.
func openBucket(address string) (*bucket, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Path != "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New(formS3)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New(formS3)
	}
	endpoint, region := query.Get("endpoint"), query.Get("region")
	for name, values := range query {
		if name != "endpoint" && name != "region" || len(values) != 1 || values[0] == "" {
			return nil, errors.New(formS3)
		}
	}
	if endpoint != "" {
		if err := checkEndpoint(endpoint); err != nil {
			return nil, err
		}
		if region == "" {
			region = "us-east-1" // as most servers that are not of AWS call themselves
		}
	}
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout, t.MaxIdleConnsPerHost = objectAnswer, 64
	})
	ctx, cancel := context.WithTimeout(context.Background(), objectTime)
	defer cancel()
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(transport), awsconfig.WithLogger(logging.Nop{})}
	if region != "" {
		options = append(options, awsconfig.WithRegion(region))
	}
	config, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the environment of AWS: %w", err)
	}
	if endpoint != "" {
		config.BaseEndpoint = &endpoint
	}
	b := &bucket{name: u.Host, config: config}
	b.client = awss3.NewFromConfig(config, b.options)
	if used := b.client.Options().BaseEndpoint; used != nil { // perhaps of AWS_ENDPOINT_URL or a file
		if err := checkEndpoint(*used); err != nil {
			return nil, err
		}
	}
	if _, err := b.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &b.name}); err != nil {
		return nil, fmt.Errorf("the bucket %s cannot be used; make it first, and set the credentials AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: %w", b.name, err)
	}
	return b, nil
}

// checkEndpoint refuses plain HTTP to other machines, and secrets in the address.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the endpoint of S3 is no https URL without user, query and fragment")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return errors.New("the endpoint of S3 is http: without TLS only a loopback address is allowed")
	}
	return nil
}

// options are those of every client, Tessera's too. With an endpoint of its own, the bucket
// is a part of the path, and not of the name of the host.
func (b *bucket) options(o *awss3.Options) {
	if b.config.BaseEndpoint != nil {
		o.BaseEndpoint = b.config.BaseEndpoint // and not the one of AWS_ENDPOINT_URL_S3
	}
	o.UsePathStyle = o.BaseEndpoint != nil
}

// absent makes the error of a missing object fs.ErrNotExist.
func absent(err error) error {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotFound {
		return fs.ErrNotExist
	}
	return err
}

// Resource reads a file of the log.
func (b *bucket) Resource(name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), objectTime)
	defer cancel()
	got, err := b.client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &b.name, Key: &name})
	if err != nil {
		return nil, absent(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxObject+1))
	if err == nil && len(text) > maxObject {
		err = fmt.Errorf("the object %s of the bucket is larger than %d bytes", name, maxObject)
	}
	return text, err
}

func (b *bucket) Blob(h canon.ContentHash) (io.ReadCloser, int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), BlobTime)
	got, err := b.client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &b.name, Key: aws.String(blobName(h))})
	if err != nil {
		cancel()
		return nil, 0, absent(err)
	}
	content := body{got.Body, cancel}
	if got.ContentLength == nil {
		return nil, 0, errors.Join(fmt.Errorf("the bucket does not say how long the blob %s is", h), content.Close())
	}
	return content, *got.ContentLength, nil
}

// body is the content of an object.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b body) Close() error { b.cancel(); return b.ReadCloser.Close() }

func (b *bucket) HasBlob(blob ledger.Blob) (bool, error) {
	if b.seen.has(blob) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), objectTime)
	defer cancel()
	got, err := b.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &b.name, Key: aws.String(blobName(blob.SHA256))})
	if err = absent(err); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || aws.ToInt64(got.ContentLength) != blob.Size {
		return false, err
	}
	b.seen.add(blob.SHA256, blob.Size)
	return true, nil
}

// PutBlob reads the content completely and checks its hash before anything is sent. The
// object is durable when S3 has answered. A blob that is there is written again: it may be
// damaged.
func (b *bucket) PutBlob(h canon.ContentHash, content io.Reader) error {
	f, err := os.CreateTemp("", "fiador-ledgerd-")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil { // it lasts as long as it is open
		return err
	}
	sum, from := sha256.New(), &source{Reader: content}
	size, err := io.Copy(io.MultiWriter(f, sum), from)
	switch {
	case from.err != nil:
		return &ReadError{from.err}
	case err != nil:
		return err
	case hex.EncodeToString(sum.Sum(nil)) != h.Hex():
		return ErrHash
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), BlobTime)
	defer cancel()
	_, err = b.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &b.name, Key: aws.String(blobName(h)), Body: f, ContentLength: &size, ContentType: aws.String("application/octet-stream"),
		ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum.Sum(nil))),
	})
	if err == nil {
		b.seen.add(h, size)
	}
	return err
}

// signed returns the size of the checkpoint that is there, and checks that it is of a log.
func (b *bucket) signed(origin string) (int64, error) {
	text, err := b.Resource("checkpoint")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if name, _, _ := bytes.Cut(text, []byte("\n")); string(name) != origin {
		return 0, fmt.Errorf("the bucket has the log %q and not %q: give each log a bucket of its own", canon.Cut(string(name)), origin)
	}
	c, err := ledger.ParseCheckpoint(text)
	if err != nil {
		return 0, fmt.Errorf("the log's checkpoint: %w", err)
	}
	return c.Size, nil
}
