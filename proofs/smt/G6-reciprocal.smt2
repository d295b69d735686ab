; the highest 1/keep is the lowest keep
(set-logic QF_NRA)
(declare-const x Real)
(declare-const y Real)
(assert (and (> x 0.0) (> y 0.0)))
(assert (not (= (> (/ 1.0 x) (/ 1.0 y)) (< x y))))
(check-sat)
