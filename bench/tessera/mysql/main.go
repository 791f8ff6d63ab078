// Command mysql is a server of Tessera on MySQL and on a bucket of S3: what fiador-ledgerd on
// the same storage is held against.
//
//	mysql DSN ENDPOINT BUCKET KEYFILE
//
// The credentials of the bucket are those of the environment. Database and bucket must be empty
// ones of this log alone: Tessera 1.0.4 puts the prefix of a bucket twice before some names.
//
// It is a program of its own: this driver makes a program start slowly, which an append would
// pay for.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/transparency-dev/tessera/storage/aws"

	"github.com/fiador/fiador/bench/tessera/server"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mysql:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("usage: mysql DSN ENDPOINT BUCKET KEYFILE")
	}
	sdk, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"))
	if err != nil {
		return err
	}
	sdk.BaseEndpoint = &args[1]
	driver, err := aws.New(ctx, aws.Config{
		SDKConfig: &sdk, S3Options: func(o *s3.Options) { o.UsePathStyle = true }, Bucket: args[2],
		DSN: args[0], MaxOpenConns: 16, MaxIdleConns: 4, // as in fiador-ledgerd
	})
	if err != nil {
		return err
	}
	return server.Serve(driver, args[3])
}
