package dev

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startNATS runs a NATS server in this process. It listens on no port, because connections are made
// in memory.
func startNATS(storeDir string) (*server.Server, error) {
	nats, err := server.NewServer(&server.Options{
		ServerName: "portolan-dev", DontListen: true, JetStream: true, StoreDir: storeDir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	nats.Start()
	if !nats.ReadyForConnections(time.Minute) {
		nats.Shutdown()
		return nil, errors.New("nats: the embedded server did not start within a minute")
	}
	return nats, nil
}
