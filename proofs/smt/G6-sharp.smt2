; w_r > w_a: an old segment of one access more is worth less than one accessed a turn ago
(set-logic QF_NRA)
(declare-const wa Real)
(declare-const wr Real)
(declare-const a Real)
(declare-const d Real)
(assert (and (>= wa 0.0) (> wr wa) (> d 0.0) (> (* d (- wr wa)) wr)))
(assert (>= (+ (* wa (+ a 1.0)) (/ wr d)) (+ (* wa a) wr)))
(check-sat)
