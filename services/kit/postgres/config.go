package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxConnect limits how long a host that does not answer delays a caller.
const maxConnect = 3 * time.Second

// Parse returns the configuration of connections to the database with this location, a URL or
// keywords and values. Several hosts with target_session_attrs=read-write follow a failover. params
// are settings of the session, by name, that the location does not set itself; application_name is
// one of them. New connections use the present content of the files of certificates and authorities.
func Parse(dsn string, params map[string]string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, OneLine(err)
	}
	for name, value := range params {
		if _, given := config.ConnConfig.RuntimeParams[name]; !given {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	if config.ConnConfig.ConnectTimeout > maxConnect || config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = maxConnect
	}
	reloadCertificates(dsn, config.ConnConfig)
	return config, nil
}
