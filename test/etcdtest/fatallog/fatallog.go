// Package fatallog makes an etcd server in this process log only why it ends the process.
//
// etcd calls Fatal if it cannot continue, as with a full disk. That ends the whole process with
// status 1, and with a logger that discards everything, without a word.
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
