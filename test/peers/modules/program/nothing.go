//go:build ignore

package main

import "context"

func beside(context.Context, string) error { return nil }
