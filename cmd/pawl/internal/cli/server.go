package cli

import "github.com/pawl-locks/pawl/test/etcdtest/devserver"

// A Server is an etcd server in this process, on loopback.
type Server = devserver.Server

// ServerOptions say how a Server is started.
type ServerOptions = devserver.Options

// StartServer returns when the server serves.
func StartServer(o ServerOptions) (*Server, error) { return devserver.Start(o) }
