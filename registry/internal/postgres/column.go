package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// column is an array of texts or of byte strings as a parameter of commitQuery. A connection encodes it
// after [registerColumns].
//
// The general encoder of pgx grows its buffer step by step, puts each element into an interface, and
// sends texts quoted, which Postgres then has to parse. Together these were a twentieth of the
// registry's work for a write.
type column[T ~string | ~[]byte] []T

// appendTo appends the binary form of an array of Postgres.
func (c column[T]) appendTo(buf []byte, element uint32) []byte {
	size := 20
	for _, v := range c {
		size += 4 + len(v)
	}
	buf = slices.Grow(buf, size)
	const dimensions, noNulls, firstIndex = 1, 0, 1
	for _, field := range []uint32{dimensions, noNulls, element, uint32(len(c)), firstIndex} { // a batch has at most a few thousand rows
		buf = binary.BigEndian.AppendUint32(buf, field)
	}
	for _, v := range c {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(v))) // objects have a few MB at most
		buf = append(buf, v...)
	}
	return buf
}

// appender is a column of either type.
type appender interface {
	appendTo(buf []byte, element uint32) []byte
}

// registerColumns makes a connection encode columns.
func registerColumns(m *pgtype.Map) {
	for oid, element := range map[uint32]uint32{pgtype.TextArrayOID: pgtype.TextOID, pgtype.ByteaArrayOID: pgtype.ByteaOID} {
		known, _ := m.TypeForOID(oid) // both are built in
		m.RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: columnCodec{Codec: known.Codec, element: element}})
	}
}

// columnCodec is the codec of an array that also encodes columns.
type columnCodec struct {
	pgtype.Codec
	element uint32 // OID of the elements
}

// PreferredFormat implements pgtype.Codec.
func (columnCodec) PreferredFormat() int16 { return pgtype.BinaryFormatCode }

// PlanEncode implements pgtype.Codec.
func (c columnCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(appender); ok && format == pgtype.BinaryFormatCode {
		return columnPlan{c.element}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// columnPlan encodes a column.
type columnPlan struct{ element uint32 }

// Encode implements pgtype.EncodePlan.
func (p columnPlan) Encode(value any, buf []byte) ([]byte, error) {
	return value.(appender).appendTo(buf, p.element), nil
}
