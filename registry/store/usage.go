package store

import "fmt"

// Account is a limited resource of one owner, such as the pods of a namespace.
type Account struct {
	Owner    string // "namespace shop"
	Resource string // "pods"
}

// Charge is an amount that a write adds to an account. A negative amount is subtracted.
type Charge struct {
	Account Account
	Amount  int
	Limit   int // the most that may be used after the write
}

// MaxUsageRecords is the largest number of records that since of a UsageFunc returns. A view that
// lags further behind than that does not decide on limited writes.
const MaxUsageRecords = 10_000

// UsageFunc returns the usage of accounts at head. since returns the records of the log after a
// revision. A store calls the function inside a commit, while nothing else can commit, so that
// limits hold exactly with any number of concurrent writers and processes.
type UsageFunc func(head Head, accounts []Account, since func(after uint64) ([]Record, error)) (map[Account]int, error)

// Usage is the usage of the accounts of a batch before the batch.
type Usage struct {
	Used map[Account]int
	// Err is the error of the writes that need the usage, if it could not be determined.
	Err error
}

// UsageFor returns the usage that decides on a batch. It calls usage only if a write of the batch
// can exceed a limit.
func UsageFor(usage UsageFunc, head Head, ops []Op, since func(after uint64) ([]Record, error)) Usage {
	accounts := limitedAccounts(ops)
	if usage == nil || len(accounts) == 0 {
		return Usage{}
	}
	used, err := usage(head, accounts, since)
	return Usage{Used: used, Err: err}
}

// IsLimited reports whether a write of the batch can exceed a limit.
func IsLimited(ops []Op) bool {
	for _, op := range ops {
		if op.takes() {
			return true
		}
	}
	return false
}

func limitedAccounts(ops []Op) []Account {
	var accounts []Account
	seen := map[Account]bool{}
	for _, op := range ops {
		for _, charge := range op.Charges {
			if charge.Amount > 0 && !seen[charge.Account] {
				seen[charge.Account] = true
				accounts = append(accounts, charge.Account)
			}
		}
	}
	return accounts
}

// takes reports whether the write adds to an account.
func (op Op) takes() bool {
	for _, charge := range op.Charges {
		if charge.Amount > 0 {
			return true
		}
	}
	return false
}

// charge adds the charges of a write to the usage, or returns an error and adds none.
func (u *Usage) charge(op Op) error {
	if u.Used == nil && u.Err == nil {
		return nil // the batch has no limited writes
	}
	if u.Err != nil {
		if op.takes() {
			return u.Err
		}
		return nil
	}
	for _, c := range op.Charges {
		if used := u.Used[c.Account]; c.Amount > 0 && used+c.Amount > c.Limit {
			return &QuotaError{Charge: c, Used: used}
		}
	}
	for _, c := range op.Charges {
		u.Used[c.Account] += c.Amount
	}
	return nil
}

// QuotaError is the error of a write that would exceed the limit of an account.
type QuotaError struct {
	Charge Charge
	Used   int // before the write
}

// Error returns a message with the account, its use and its limit.
func (q *QuotaError) Error() string {
	return fmt.Sprintf("quota of %s: %s: %d of %d are used, and the write takes %d more",
		q.Charge.Account.Owner, q.Charge.Account.Resource, q.Used, q.Charge.Limit, q.Charge.Amount)
}
