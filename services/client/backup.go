package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"

	registryv1 "portolan.dev/api/registry/v1"
)

// maxRecord is larger than any record that an export writes.
const maxRecord = 16 << 20

// WriteRecord writes a part of a backup to the file of the backup.
func WriteRecord(file io.Writer, record *registryv1.BackupRecord) error {
	_, err := protodelim.MarshalTo(file, record)
	return err
}

// ReadRecord reads the next part of a backup from its file. At the end of the file the error is io.EOF.
func ReadRecord(file *bufio.Reader) (*registryv1.BackupRecord, error) {
	record := &registryv1.BackupRecord{}
	err := protodelim.UnmarshalOptions{MaxSize: maxRecord}.UnmarshalFrom(file, record)
	return record, err
}

// Export writes a backup of the registry to a file.
func (c *Client) Export(ctx context.Context, file io.Writer) error {
	stream, err := registryv1.NewBackupServiceClient(c.conn).Export(ctx, &registryv1.ExportRequest{})
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return buffered.Flush()
		}
		if err == nil {
			err = WriteRecord(buffered, answer.GetRecord())
		}
		if err != nil {
			return err
		}
	}
}

// Imported is the result of an import.
type Imported struct {
	Objects, Revision uint64
	Installation      string // identity of the registry that was filled
	Original          string // identity of the registry that the backup was made of; "" if it is not known
}

// Import fills an empty registry with the backup in a file.
func (c *Client) Import(ctx context.Context, file io.Reader) (Imported, error) {
	stream, err := registryv1.NewBackupServiceClient(c.conn).Import(ctx)
	if err != nil {
		return Imported{}, err
	}
	original := ""
	for buffered := bufio.NewReader(file); ; {
		record, err := ReadRecord(buffered)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Imported{}, fmt.Errorf("read backup: %w", err)
		}
		if header := record.GetHeader(); header != nil {
			original = header.GetInstallation()
		}
		if err := stream.Send(&registryv1.ImportRequest{Record: record}); err != nil {
			break // the response has the reason
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return Imported{}, err
	}
	return Imported{Objects: answer.GetObjects(), Revision: answer.GetRevision(), Installation: answer.GetInstallation(), Original: original}, nil
}

// String describes the result to an operator.
func (i Imported) String() string {
	text := fmt.Sprintf("%d objects imported, the registry is at revision %d", i.Objects, i.Revision)
	if i.Original == "" || i.Original == i.Installation {
		return text
	}
	return text + fmt.Sprintf(".\nThe backup is of installation %s, and this is installation %s: it leaves the change stream of the other one alone, as a copy for practice must.\n"+
		"If it takes the place of the other one: registry installation -store-file FILE -set %s", i.Original, i.Installation, i.Original)
}
