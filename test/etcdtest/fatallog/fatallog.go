// Package fatallog has an etcd server in this process log nothing but why it ends the process.
//
// etcd calls Fatal where it cannot go on, as with a full disk. That ends the whole process with
// status 1, and a logger that discards everything would have it end without a word.
package fatallog

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a logger that writes what is fatal to stderr.
func New() *zap.Logger {
	lines := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	return zap.New(zapcore.NewCore(lines, zapcore.Lock(os.Stderr), zapcore.FatalLevel))
}
