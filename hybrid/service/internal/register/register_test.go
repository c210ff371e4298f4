package register

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/databasetest"
)

// TestRegister: the earliest Known and the latest Asked of all that was written are there, of rules
// that have not gone, in each kind of database.
func TestRegister(t *testing.T) {
	for name, connect := range map[string]func(*testing.T) (*sql.DB, sqlrules.Dialect){
		"sqlite": func(t *testing.T) (*sql.DB, sqlrules.Dialect) {
			return databasetest.SQLite(t), sqlrules.SQLite
		},
		"mysql": databasetest.MariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			db, d := connect(t)
			r, err := Open(t.Context(), db, d)
			if err == nil {
				r, err = Open(t.Context(), db, d) // once more
			}
			if err != nil {
				t.Fatal(err)
			}
			at := func(hour int) time.Time { return time.Unix(int64(3600*hour), 0) }
			save := func(changed map[ID]Rule, gone ...ID) {
				t.Helper()
				if err := r.Save(t.Context(), changed, gone); err != nil {
					t.Fatal(err)
				}
			}
			a, b, c := IDOf("shop", "user"), IDOf("shop", "path"), IDOf("sho", "puser")
			save(nil)
			save(map[ID]Rule{a: {at(5), time.Time{}}, b: {at(5), at(9)}, c: {at(1), at(1)}})
			save(map[ID]Rule{a: {at(7), at(8)}, b: {at(4), at(6)}})
			save(nil, c)
			all, err := r.Load(t.Context())
			if err != nil || len(all) != 2 || all[a] != (Rule{at(5), at(8)}) ||
				all[b] != (Rule{at(4), at(9)}) {
				t.Errorf("%v %v", all, err)
			}
			many, ids := map[ID]Rule{}, []ID(nil)
			for i := range 10_000 {
				id := IDOf("many", fmt.Sprint(i))
				many[id] = Rule{at(1), time.Time{}}
				ids = append(ids, id)
			}
			begin := time.Now()
			save(many)
			t.Logf("10,000 rules are saved in %v", time.Since(begin))
			if all, err = r.Load(t.Context()); err != nil || len(all) != 10_002 {
				t.Errorf("%d rules, %v", len(all), err)
			}
			save(nil, ids...)
			if all, err = r.Load(t.Context()); err != nil || len(all) != 2 {
				t.Errorf("%d rules, %v", len(all), err)
			}
		})
	}
}
