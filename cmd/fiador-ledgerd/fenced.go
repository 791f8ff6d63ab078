package main

import (
	"context"
	"errors"
	"net/http"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

// fenced is the client of S3 that Tessera uses. A request ends when the lock is lost, or when
// it takes too long.
type fenced struct {
	awss3.HTTPClient
	lines *lines
}

func (f fenced) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), objectTime)
	stop := context.AfterFunc(f.lines.life, cancel)
	end := func() { stop(); cancel() }
	got, err := f.HTTPClient.Do(r.WithContext(ctx))
	if err != nil {
		end()
		if f.lines.life.Err() != nil {
			err = errors.Join(errLost, err)
		}
		return nil, err
	}
	got.Body = body{got.Body, end}
	return got, nil
}
