(* C2: no deterministic policy beats max(K, (K+1)(1+lambda)/(1+ceil(lambda))).

   The adversary asks, tau times in a row, for an item that the cache lacks at that moment; it runs against any
   policy, given as a function of the requests so far. *)

Require Import List Arith Bool Lia.
Require Import Paging C1.
Import ListNotations.

(* The blocks that the adversary asks for: computed by playing against the policy. A policy that breaks a rule ends
   the game. *)
Fixpoint adversary (V : variant) (K tau : nat) (pol : list nat -> action) (h c : list nat) (n : nat) : list nat :=
  match n with
  | 0 => []
  | S n' =>
      let x := hd 0 (missing K c) in
      match run V K c (acts pol h (repeat x tau)) with
      | None => [x]
      | Some (c1, _, _) => x :: adversary V K tau pol (rev (repeat x tau) ++ h) c1 n'
      end
  end.

Lemma hd_missing : forall K c, good K c -> hd 0 (missing K c) <= K /\ ~ In (hd 0 (missing K c)) c.
Proof.
  intros K c G. pose proof (one_is_missing K c G) as M.
  destruct (missing K c) as [| x l] eqn:E; [ simpl in M; lia |].
  apply missing_In. rewrite E. now left.
Qed.

Lemma adversary_items : forall V K tau pol n h c, good K c ->
  forall x, In x (adversary V K tau pol h c n) -> x <= K.
Proof.
  induction n as [| n IH]; cbn [adversary]; intros h c G x Hx; [ destruct Hx |].
  destruct (hd_missing K c G) as [Le _].
  destruct (run V K c (acts pol h (repeat (hd 0 (missing K c)) tau))) as [[[c1 m1] z1] |] eqn:R.
  - destruct Hx as [<- | Hx]; [ assumption |]. exact (IH _ _ (run_good _ _ _ _ _ _ _ R G) x Hx).
  - destruct Hx as [<- | []]. assumption.
Qed.

Lemma adversary_cost : forall V K tau D L B pol, block_bound V K tau D L B ->
  forall n h c, good K c -> obeys V K tau pol h c ->
  length (adversary V K tau pol h c n) = n /\
  n * B <= alg_cost V K tau D L pol h c (adversary V K tau pol h c n).
Proof.
  intros V K tau D L B pol HB. induction n as [| n IH]; intros h c G O; [ split; [ reflexivity | lia ] |].
  cbn [adversary]. destruct (hd_missing K c G) as [Le Nin]. set (x := hd 0 (missing K c)) in *.
  destruct (run V K c (acts pol h (repeat x tau))) as [[[c1 m1] z1] |] eqn:R.
  2:{ exfalso. apply (O [x]); [ intros y [<- | []]; lia |]. rewrite play_cons, R. reflexivity. }
  assert (O1 : obeys V K tau pol (rev (repeat x tau) ++ h) c1).
  { intros bs Hbs C. apply (O (x :: bs)); [ intros y [<- | Hy]; [ lia | auto ] |].
    rewrite play_cons, R, C. reflexivity. }
  assert (G1 : good K c1) by exact (run_good _ _ _ _ _ _ _ R G).
  destruct (IH _ _ G1 O1) as [IL IC]. split; [ simpl; now rewrite IL |].
  assert (B <= charged D L m1 z1) as Hb
    by exact (HB x _ c c1 m1 z1 (acts_fst _ _ _) (proj2 (held_nIn _ _) Nin) R).
  unfold alg_cost in *. rewrite play_cons, R.
  destruct (play V K tau pol (rev (repeat x tau) ++ h) c1 (adversary V K tau pol (rev (repeat x tau) ++ h) c1 n))
    as [[[c2 m2] z2] |] eqn:R2.
  - unfold charged in *. lia.
  - exfalso. apply (O1 _ (adversary_items V K tau pol n _ _ G1) R2).
Qed.

(* ---- The K + 1 static caches: each loads every item but x at its first request, and never x ---- *)

Definition static_action (x : nat) (c : list nat) (q : nat) : action :=
  if (q =? x) || held q c then idle else Act [] [q].

Definition static_after (x : nat) (c : list nat) (q : nat) : list nat :=
  if (q =? x) || held q c then c else q :: c.

Fixpoint static_schedule (x : nat) (c qs : list nat) : list (nat * action) :=
  match qs with [] => [] | q :: r => (q, static_action x c q) :: static_schedule x (static_after x c q) r end.

Lemma static_requests : forall x qs c, map fst (static_schedule x c qs) = qs.
Proof. induction qs as [| q r IH]; intros c; [ reflexivity | cbn [static_schedule map fst]; now rewrite IH ]. Qed.

Lemma miss_le : forall q c, miss q c <= 1.
Proof. intros. unfold miss. destruct (held q c); lia. Qed.

Lemma static_cost : forall V K x qs c,
  x <= K -> good K c -> ~ In x c -> (forall y, In y c -> y <= K) -> (forall y, In y qs -> y <= K) ->
  exists c1 m z, run V K c (static_schedule x c qs) = Some (c1, m, z) /\
    m <= count_occ Nat.eq_dec qs x + z /\ z + length c <= K.
Proof.
  induction qs as [| q r IH]; intros c Hx G Nx Rc Rq.
  - exists c, 0, 0. destruct G as [G1 G2]. split; [ reflexivity |]. split; [ simpl; lia | simpl; exact G2 ].
  - assert (Rr : forall y, In y r -> y <= K) by (intros; apply Rq; now right).
    assert (Rq' : q <= K) by (apply Rq; now left).
    cbn [static_schedule run]. unfold static_action, static_after.
    destruct ((q =? x) || held q c) eqn:E.
    + destruct (IH c) as [c1 [m [z [ER [Hm Hz]]]]]; auto.
      unfold update. cbn [idle leaves enters leave_all enter_all]. rewrite ER.
      exists c1, (miss q (if serves_first V then c else c) + m), z. split; [ reflexivity |]. split; [| assumption ].
      cbn [count_occ]. destruct (Nat.eq_dec q x) as [-> | Ne].
      * pose proof (miss_le x (if serves_first V then c else c)). lia.
      * apply orb_true_iff in E as [E | E]; [ apply Nat.eqb_eq in E; congruence |].
        unfold miss. destruct (serves_first V); rewrite E; lia.
    + apply orb_false_iff in E as [E1 E2]. apply Nat.eqb_neq in E1. apply held_nIn in E2.
      destruct G as [G1 G2].
      assert (length (q :: c) <= K) as Lq.
      { assert (length (x :: q :: c) <= length (seq 0 (S K))) as I.
        { apply NoDup_incl_length.
          - constructor; [ intros [C | C]; [ now apply E1 | contradiction ] | now constructor ].
          - intros y [<- | [<- | Hy]]; apply in_seq; [ lia | lia | specialize (Rc _ Hy); lia ]. }
        rewrite seq_length in I. simpl in I |- *. lia. }
      destruct (IH (q :: c)) as [c1 [m [z [ER [Hm Hz]]]]]; auto.
      { split; [ now constructor | assumption ]. }
      { intros [C | C]; [ now apply E1 | contradiction ]. }
      { intros y [<- | Hy]; auto. }
      unfold update. cbn [leaves enters leave_all enter_all].
      assert (held q c = false) as -> by now apply held_nIn.
      rewrite Nat.eqb_refl, andb_false_r.
      assert (S (length c) <=? K = true) as -> by (apply Nat.leb_le; exact Lq).
      rewrite ER. exists c1, (miss q (if serves_first V then c else q :: c) + m), (1 + z).
      split; [ reflexivity |]. cbn [count_occ]. destruct (Nat.eq_dec q x) as [-> | Ne]; [ congruence |].
      pose proof (miss_le q (if serves_first V then c else q :: c)).
      simpl in Hz. split; lia.
Qed.

Lemma blocks_count : forall tau x bs, count_occ Nat.eq_dec (blocks tau bs) x = tau * count_occ Nat.eq_dec bs x.
Proof.
  intros tau x bs; induction bs as [| y r IH]; simpl; [ lia |]. rewrite count_occ_app, IH.
  assert (count_occ Nat.eq_dec (repeat y tau) x = if Nat.eq_dec y x then tau else 0) as ->.
  { clear. induction tau as [| t IHt]; simpl; [ now destruct (Nat.eq_dec y x) |].
    rewrite IHt. destruct (Nat.eq_dec y x); lia. }
  destruct (Nat.eq_dec y x); lia.
Qed.

Lemma blocks_In : forall tau x bs, In x (blocks tau bs) -> In x bs.
Proof.
  induction bs as [| y r IH]; simpl; [ tauto |]. intros H. apply in_app_iff in H as [H | H]; [ left | auto ].
  now apply repeat_spec in H.
Qed.

(* Each block asks for one item, so the counts over K + 1 items add up to the number of blocks. *)
Lemma counts_add_up : forall k bs, (forall x, In x bs -> x < k) ->
  total (count_occ Nat.eq_dec bs) (seq 0 k) = length bs.
Proof.
  intros k bs; induction bs as [| y r IH]; intros R.
  - rewrite (total_ext _ _ (fun _ => 0)) by reflexivity. rewrite total_const. simpl. lia.
  - rewrite (total_ext _ _ (fun x => (if y =? x then 1 else 0) + count_occ Nat.eq_dec r x)).
    + rewrite total_plus, IH, (total_filter _ (fun x => y =? x)) by (intros; apply R; now right).
      assert (length (filter (fun x => y =? x) (seq 0 k)) = 1) as ->; [| reflexivity ].
      apply Nat.le_antisymm.
      * apply (NoDup_incl_length (l := filter (fun x => y =? x) (seq 0 k)) (l' := [y]));
          [ apply NoDup_filter, seq_NoDup |].
        intros z Hz. apply filter_In in Hz as [_ Hz]. apply Nat.eqb_eq in Hz. now left.
      * assert (In y (filter (fun x => y =? x) (seq 0 k))) as H.
        { apply filter_In. split; [ apply in_seq; specialize (R y (or_introl eq_refl)); lia | apply Nat.eqb_refl ]. }
        destruct (filter (fun x => y =? x) (seq 0 k)); [ destruct H | simpl; lia ].
    + intros x _. cbn [count_occ]. destruct (Nat.eq_dec y x) as [-> | Ne]; [ now rewrite Nat.eqb_refl |].
      apply Nat.eqb_neq in Ne. now rewrite Ne.
Qed.

Lemma least_of_many : forall (f : nat -> nat) k, 1 <= k -> exists x, x < k /\ k * f x <= total f (seq 0 k).
Proof.
  intros f k Hk.
  destruct (some_exceeds _ (fun x => k * f x) (fun _ => S (total f (seq 0 k))) (seq 0 k)) as [[x [Hx E]] | C].
  - apply in_seq in Hx. exists x. split; lia.
  - exfalso. apply total_le in C. rewrite total_const, total_scale, seq_length in C. nia.
Qed.

(* For any n blocks over K + 1 items, some static cache pays at most tau D n / (K + 1), beside its K loads. *)
Theorem best_static : forall V K tau D L bs, (forall x, In x bs -> x <= K) ->
  exists sched c m z, map fst sched = blocks tau bs /\ run V K [] sched = Some (c, m, z) /\
    (K + 1) * charged D L m z <= tau * D * length bs + (K + 1) * (K * (D + L)).
Proof.
  intros V K tau D L bs R.
  destruct (least_of_many (count_occ Nat.eq_dec bs) (K + 1) ltac:(lia)) as [x [Hx Hc]].
  rewrite counts_add_up in Hc by (intros y Hy; specialize (R y Hy); lia).
  destruct (static_cost V K x (blocks tau bs) []) as [c [m [z [E [Hm Hz]]]]]; auto; try lia.
  - split; [ constructor | simpl; lia ].
  - intros y [].
  - intros y Hy. apply R. eapply blocks_In; eauto.
  - exists (static_schedule x [] (blocks tau bs)), c, m, z. split; [ apply static_requests |]. split; [ assumption |].
    rewrite blocks_count in Hm. simpl length in Hz. unfold charged.
    assert (z <= K) as Hz' by lia.
    assert (m * D <= (tau * count_occ Nat.eq_dec bs x + K) * D) as H1 by (apply Nat.mul_le_mono_r; lia).
    assert (z * L <= K * L) as H2 by (apply Nat.mul_le_mono_r; lia).
    apply (Nat.mul_le_mono_l _ _ (tau * D)) in Hc.
    apply (Nat.mul_le_mono_l _ _ (K + 1)) in H1. apply (Nat.mul_le_mono_l _ _ (K + 1)) in H2. lia.
Qed.

(* n blocks of the adversary: the policy pays n (D + L), even against free fill less K L; some schedules pay little. *)
Theorem adaptive_adversary : forall V K D L pol n,
  1 <= K -> 0 < D -> serves_first V = true -> obeys V K (tau_stu D L) pol [] [] ->
  let bs := adversary V K (tau_stu D L) pol [] [] n in
  length bs = n /\ (forall x, In x bs -> x <= K) /\
  n * (D + L) <= alg_cost V K (tau_stu D L) D L pol [] [] bs /\
  (exists sched c m z, map fst sched = blocks (tau_stu D L) bs /\ run V K [] sched = Some (c, m, z) /\
    (K + 1) * charged D L m z <= tau_stu D L * D * n + (K + 1) * (K * (D + L))) /\
  (exists sched c m z, map fst sched = blocks (tau_stu D L) bs /\ run V K [] sched = Some (c, m, z) /\
    K * charged D L m z <= (D + L) * n + K * (K * (D + L))).
Proof.
  intros V K D L pol n HK HD HV HO bs.
  assert (G : good K []) by (split; [ constructor | simpl; lia ]).
  assert (HB : block_bound V K (tau_stu D L) D L (D + L)) by (intros q l c c1 m z Hl E R; eapply block_cost; eauto).
  destruct (adversary_cost V K (tau_stu D L) D L (D + L) pol HB n [] [] G HO) as [Len Cost].
  assert (R : forall x, In x bs -> x <= K) by (apply adversary_items; assumption).
  fold bs in Len, Cost. repeat split; try assumption.
  - rewrite <- Len. now apply best_static.
  - destruct (phase_cost V K (tau_stu D L) D L bs HK) as [c [m [z [E1 [E2 [E3 _]]]]]]; auto.
    { unfold tau_stu. lia. }
    exists (phase_schedule K (tau_stu D L) [] bs), c, m, z. split; [ assumption |]. split; [ assumption |].
    rewrite HV in E3. pose proof (phases_are_long K bs [] ltac:(simpl; lia)) as P. rewrite Len in P. simpl length in P.
    apply (Nat.mul_le_mono_l _ _ K) in E3. apply (Nat.mul_le_mono_l _ _ (D + L)) in P. lia.
Qed.

Lemma alg_free_charged : forall V K D L pol bs,
  alg_cost V K (tau_of V D L) D L pol [] [] bs <= alg_free V K D L pol bs + K * L.
Proof.
  intros. unfold alg_cost, alg_free. destruct (play V K (tau_of V D L) pol [] [] bs) as [[[c m] z] |]; [| lia ].
  unfold charged, free_fill. assert (z * L <= (z - K) * L + K * L) by nia. lia.
Qed.

(* No deterministic policy is p/q-competitive with p/q below K or below (K+1)(1+lambda)/(1+ceil(lambda)), written
   (K+1)(D+L)/(tau D): for any b some sequence and some schedule that obeys the rules break the bound. The policy's
   fill is free, that of the schedule is charged. *)
Theorem no_deterministic_policy : forall V K D L pol p q b,
  1 <= K -> 0 < D -> serves_first V = true -> obeys V K (tau_stu D L) pol [] [] ->
  p < q * K \/ p * (tau_stu D L * D) < q * ((K + 1) * (D + L)) ->
  exists bs sched c m z,
    (forall x, In x bs -> x <= K) /\ map fst sched = blocks (tau_stu D L) bs /\
    run V K [] sched = Some (c, m, z) /\
    p * charged D L m z + b < q * alg_free V K D L pol bs.
Proof.
  intros V K D L pol p q b HK HD HV HO Hpq.
  set (n := S (p * ((K + 1) * (K * (D + L))) + (K + 1) * b + (K + 1) * q * (K * L))).
  destruct (adaptive_adversary V K D L pol n HK HD HV HO) as [_ [R [Cost [Static Phases]]]].
  set (bs := adversary V K (tau_stu D L) pol [] [] n) in *.
  pose proof (alg_free_charged V K D L pol bs) as F. unfold tau_of in F. rewrite HV in F.
  assert (n * (D + L) <= alg_free V K D L pol bs + K * L) as A by lia.
  apply (Nat.mul_le_mono_l _ _ q) in A.
  destruct Hpq as [H | H].
  - destruct Phases as [sched [c [m [z [E1 [E2 E3]]]]]]. exists bs, sched, c, m, z.
    split; [ assumption |]. split; [ assumption |]. split; [ assumption |].
    apply (Nat.mul_lt_mono_pos_l K); [ lia |].
    apply (Nat.mul_le_mono_l _ _ p) in E3. apply (Nat.mul_le_mono_l _ _ K) in A.
    assert ((p + 1) * (n * (D + L)) <= q * K * (n * (D + L))) as G by (apply Nat.mul_le_mono_r; lia).
    assert (n * 1 <= n * (D + L)) as G2 by (apply Nat.mul_le_mono_l; lia).
    assert (p * (K * (K * (D + L))) + K * b + K * q * (K * L) < n) as G3.
    { unfold n.
      pose proof (Nat.le_0_l (p * (K * (D + L)))). pose proof (Nat.le_0_l b). pose proof (Nat.le_0_l (q * (K * L))). lia. }
    lia.
  - destruct Static as [sched [c [m [z [E1 [E2 E3]]]]]]. exists bs, sched, c, m, z.
    split; [ assumption |]. split; [ assumption |]. split; [ assumption |].
    apply (Nat.mul_lt_mono_pos_l (K + 1)); [ lia |].
    apply (Nat.mul_le_mono_l _ _ p) in E3. apply (Nat.mul_le_mono_l _ _ (K + 1)) in A.
    assert ((p * (tau_stu D L * D) + 1) * n <= q * ((K + 1) * (D + L)) * n) as G by (apply Nat.mul_le_mono_r; lia).
    assert (p * ((K + 1) * (K * (D + L))) + (K + 1) * b + (K + 1) * q * (K * L) < n) as G3 by (unfold n; lia).
    lia.
Qed.
